// SPDX-License-Identifier: Apache-2.0
// Gradients through values that were computed before and let go of their inputs: refused, never zero in silence.
#include <gtest/gtest.h>

#include "graph/ir/node.h"
#include "support/message.h"
#include "transom/compile.h"
#include "transom/device.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

using Floats = std::vector<float>;
using test::message_of;

class ReleasedInputs : public testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    set_device("cpu");
    set_mode(GetParam());
  }
  void TearDown() override { set_mode(Mode::kLazy); }
  static Tensor numbers() { return Tensor::from(Floats{1, 2, 3}, {3}); }
  static void expect_refused(const Tensor& loss, const std::vector<Tensor>& sources) {
    const std::string message = message_of([&] { gradients(loss, sources); });
    EXPECT_NE(message.find("was computed before"), std::string::npos) << message;
    EXPECT_NE(message.find("set_requires_grad()"), std::string::npos) << message;
  }
};

TEST_P(ReleasedInputs, OfAValueThatWasReadAreRefused) {
  const Tensor x = numbers();
  const Tensor y = x * x;
  eval({y});
  expect_refused(sum(y), {x});
  expect_refused(sum(exp(y) + x), {x});
  const Tensor z = y + 1.0;
  eval({z});
  expect_refused(sum(z), {x});
  // In eager mode the sum, too, has let go of z by now.
  if (GetParam() == Mode::kEager) expect_refused(sum(z), {z});
  else EXPECT_EQ(gradients(sum(z), {z})[0].to_vector<float>(), (Floats{1, 1, 1}));
}

TEST_P(ReleasedInputs, OfAValueBehindOneThatIsNotReadAreRefused) {
  const Tensor x = numbers();
  const Tensor held = x * 2.0;
  const Tensor y = sum(held * held);
  EXPECT_EQ(y.item<float>(), 56);
  expect_refused(y, {x});
  expect_refused(y, {held});
}

TEST_P(ReleasedInputs, WithAnIndependentTensorAreTakenAsBefore) {
  const Tensor w = numbers(), data = numbers();
  const Tensor scaled = data * 2.0;  // younger than w, and nothing to do with it
  eval({scaled});
  Tensor x = numbers();
  x.set_requires_grad();
  EXPECT_EQ(gradients(sum(x * scaled * numbers()), {x})[0].to_vector<float>(), (Floats{2, 8, 18}));
  if (GetParam() != Mode::kEager) {
    EXPECT_EQ(gradients(sum(w * scaled), {w})[0].to_vector<float>(), (Floats{2, 4, 6}));
    // Twice with respect to the same tensor, whose first loss was read.
    const Tensor loss = sum(w * w);
    EXPECT_EQ(gradients(loss, {w})[0].to_vector<float>(), (Floats{2, 4, 6}));
    loss.item<float>();
    EXPECT_EQ(gradients(sum(w * w * w), {w})[0].to_vector<float>(), (Floats{3, 12, 27}));
  }
}

TEST_P(ReleasedInputs, WhereMemoryWasAskedForAreTaken) {
  Tensor x = numbers();
  x.set_requires_grad();
  const Tensor y = x * x;
  eval({y});
  EXPECT_EQ(gradients(sum(y), {x})[0].to_vector<float>(), (Floats{2, 4, 6}));
  Tensor constant;
  {
    const NoGradient aside;
    constant = x * 3.0;
    eval({constant});
  }
  EXPECT_EQ(gradients(sum(x * constant), {x})[0].to_vector<float>(), (Floats{3, 6, 9}));
}

TEST_P(ReleasedInputs, OfATensorThatRequiresThemTooLateAreRefused) {
  Tensor x = numbers();
  const Tensor y = x * x;
  eval({y});
  x.set_requires_grad();
  expect_refused(sum(y), {x});
}

TEST_P(ReleasedInputs, OfATensorThatRequiresThemBeforeItsUseIsComputedAreRefusedToo) {
  Tensor x = numbers();
  const Tensor y = x * 2.0;  // made when x required none: it does not save x
  x.set_requires_grad();
  eval({y});
  expect_refused(sum(y), {x});
}

TEST_P(ReleasedInputs, ThroughWhatCarriesNoGradientAreZeros) {
  const Tensor x = numbers();
  const Tensor places = cast(x, DType::kInt64);
  eval({places});
  EXPECT_EQ(gradients(sum(cast(places, DType::kFloat32)), {x})[0].to_vector<float>(), (Floats{0, 0, 0}));
  const Tensor detached = make_tensor(find_operation("stop_gradient"), {x}) * 2.0;
  eval({detached});
  EXPECT_EQ(gradients(sum(detached), {x})[0].to_vector<float>(), (Floats{0, 0, 0}));
}

TEST_P(ReleasedInputs, OfCompiledFunctionsAreRefused) {
  const CompiledFunction square = compile([](const std::vector<Tensor>& x) { return std::vector{x[0] * x[0]}; });
  Tensor x = numbers();
  x.set_requires_grad();
  const Tensor y = square({x})[0];
  expect_refused(sum(y), {x});
  const Tensor other = numbers();
  const NoGradient aside;
  EXPECT_EQ(gradients(sum(square({other})[0]), {other})[0].to_vector<float>(), (Floats{0, 0, 0}));
}

// The second asker shares the tensor with one that has read its value.
TEST_P(ReleasedInputs, OfASharedTensorAreRefusedForEachAsker) {
  const Tensor x = numbers(), y = tanh(x);
  const Tensor first = sum(y), second = sum(y * 2.0);
  first.item<float>();
  y.to_vector<float>();
  expect_refused(first, {x});
  expect_refused(second, {x});
}

INSTANTIATE_TEST_SUITE_P(Modes, ReleasedInputs, testing::Values(Mode::kLazy, Mode::kEager),
                         [](const auto& info) { return info.param == Mode::kLazy ? "lazy" : "eager"; });

}  // namespace
}  // namespace transom
