// SPDX-License-Identifier: Apache-2.0
#include "ops/batch_invariance.h"

#include <gtest/gtest.h>

#include <thread>

#include "ir/node.h"
#include "support/evaluation.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

Tensor input(const Shape& shape) { return make_input({DType::kFloat32, shape}); }

bool says_so(const Tensor& x) { return x.node()->attributes.has("batch_invariant"); }

TEST(BatchInvarianceOfOperations, IsAnAttributeOfWhatAThreadBuildsWhileItLives) {
  const Tensor x = input({2, 3}), w = input({4, 3}), q = input({1, 5, 2, 8});
  const auto expect_all = [&](bool expected) {
    EXPECT_EQ(says_so(linear(x, w, {})), expected);
    EXPECT_EQ(says_so(attention(q, q, q, {}, {})), expected);
    EXPECT_EQ(says_so(x + x), false);
  };
  expect_all(false);
  {
    const BatchInvariance invariance;
    expect_all(true);
    std::thread([&] { expect_all(false); }).join();  // of another asker
    { const BatchInvariance inner; }
    expect_all(true);
  }
  expect_all(false);
}

// Its gradient is no more the library's than it is.
TEST(BatchInvarianceOfOperations, StaysWithTheGradientOfAttention) {
  const Tensor q = input({1, 5, 2, 8}), k = input({1, 5, 2, 8}), v = input({1, 5, 2, 8}), dy = input({1, 5, 2, 8});
  const BatchInvariance invariance;
  const Tensor y = attention(q, k, v, {}, {});
  EXPECT_TRUE(says_so(gradients({y}, {dy}, {q})[0]));
}

}  // namespace
}  // namespace transom
