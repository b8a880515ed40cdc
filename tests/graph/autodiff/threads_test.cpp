// SPDX-License-Identifier: Apache-2.0
// One thread differentiates a graph that another one computes.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "transom/device.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

using Floats = std::vector<float>;

TEST(GradientsOfASharedGraph, AreThoseOfTheGraphAlone) {
  set_device("cpu");
  const auto numbers = [](float first) {
    Floats values(32);
    for (size_t i = 0; i < values.size(); ++i) values[i] = first + 0.125F * static_cast<float>(i % 7);
    return Tensor::from(values, {4, 8});
  };
  const auto loss_of = [&](const Tensor& x) {
    Tensor y = x, scale = numbers(1) * 2.0;  // nodes that keep their inputs, and others that let go of them
    for (int i = 0; i < 20; ++i) {
      for (int k = 0; k < 10; ++k) scale = scale + 0.001;
      y = tanh(y * exp(scale * 0.01));
    }
    return sum(y);
  };
  const auto source = [&] {
    Tensor x = numbers(-0.5F);
    return x.set_requires_grad();
  };
  const Tensor alone = source();
  const Floats expected = gradients(loss_of(alone), {alone})[0].to_vector<float>();
  const float expected_loss = loss_of(source()).item<float>();
  int wrong = 0;
  for (int round = 0; round < 200; ++round) {
    const Tensor x = source();
    const Tensor loss = loss_of(x);
    std::atomic<int> arrived{0};
    float found = 0;
    std::thread other([&] {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
      found = loss.item<float>();
    });
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
    const Tensor gradient = gradients(loss, {x})[0];
    wrong += gradient.to_vector<float>() != expected;
    other.join();
    wrong += found != expected_loss;
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace transom
