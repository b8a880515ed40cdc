// SPDX-License-Identifier: Apache-2.0
// How the reverse sweep walks the graph; the rules themselves are tried in tests/graph/ops.
#include "transom/gradients.h"

#include <gtest/gtest.h>

#include "support/finite_differences.h"
#include "support/message.h"

namespace transom {
namespace {

using test::evaluate;
using test::Leaf;
using test::leaf;
using Values = std::vector<double>;

Tensor stop_gradient(const Tensor& x) { return make_tensor(find_operation("stop_gradient"), {x}); }

TEST(Gradients, AddUpOverSharedSubexpressions) {
  const Leaf x = leaf({2}, {3, 5});
  const Tensor square = x.tensor * x.tensor;
  // (x^2)^2 + x^2 + x: 4 x^3 + 2 x + 1
  const Tensor loss = sum(square * square + square + x.tensor);
  EXPECT_EQ(evaluate(gradients(loss, {x.tensor})[0], {x}), (Values{115, 511}));
}

TEST(Gradients, OfASigmoidAreFiniteWhereItsExponentialIsNot) {
  const Leaf x = leaf({3}, {-1e4, 0, 1e4});
  EXPECT_EQ(evaluate(gradients(sum(sigmoid(x.tensor)), {x.tensor})[0], {x}), (std::vector<double>{0, 0.25, 0}));
}

TEST(Gradients, OfUnusedParametersAreZerosOfTheirType) {
  const Leaf x = leaf({2}, {3, 5});
  const Tensor unused = make_input({DType::kBFloat16, {4, 1}});
  const std::vector<Tensor> found = gradients(sum(x.tensor), {unused, x.tensor});
  EXPECT_EQ(found[0].type(), unused.type());
  EXPECT_EQ(evaluate(found[0]), Values(4, 0.0));
}

TEST(Gradients, PassThroughSourcesThatDependOnEachOther) {
  const Leaf x = leaf({}, {3});
  const Tensor y = x.tensor * x.tensor, loss = y * y;
  const std::vector<Tensor> found = gradients(loss, {y, x.tensor});
  EXPECT_EQ(evaluate(found[0], {x}), Values{18});
  EXPECT_EQ(evaluate(found[1], {x}), Values{108});
}

TEST(Gradients, OfTheLossItselfIsOne) {
  const Leaf x = leaf({}, {3});
  const Tensor loss = x.tensor * x.tensor;
  EXPECT_EQ(evaluate(gradients(loss, {loss})[0], {x}), Values{1});
  EXPECT_EQ(evaluate(gradients(x.tensor, {x.tensor})[0], {x}), Values{1});
}

TEST(Gradients, OfASourceAskedForTwiceAreTheSame) {
  const Leaf x = leaf({}, {3});
  const std::vector<Tensor> found = gradients(x.tensor * x.tensor, {x.tensor, x.tensor});
  EXPECT_EQ(evaluate(found[0], {x}), Values{6});
  EXPECT_EQ(evaluate(found[1], {x}), Values{6});
}

TEST(Gradients, StopAtStopGradient) {
  const Leaf x = leaf({}, {3});
  EXPECT_EQ(evaluate(gradients(x.tensor * stop_gradient(x.tensor), {x.tensor})[0], {x}), Values{3});
  EXPECT_EQ(evaluate(gradients(stop_gradient(x.tensor * x.tensor), {x.tensor})[0], {x}), Values{0});
}

TEST(Gradients, DoNotFlowThroughIntegersAndBool) {
  const Leaf x = leaf({3}, {1, 5, 2}), table = leaf({3}, {10, 20, 30});
  const Tensor place = arg_max(x.tensor, 0);
  const std::vector<Tensor> found = gradients(gather(table.tensor, place, 0) * sum(x.tensor), {x.tensor, table.tensor});
  EXPECT_EQ(evaluate(found[0], {x, table}), (Values{20, 20, 20}));
  EXPECT_EQ(evaluate(found[1], {x, table}), (Values{0, 8, 0}));
  const Tensor mask = cast(greater(x.tensor, full({3}, 1.5, DType::kFloat64)), DType::kFloat64);
  EXPECT_EQ(evaluate(gradients(sum(mask * x.tensor), {x.tensor})[0], {x}), (Values{0, 1, 1}));
}

TEST(Gradients, ForIntegerInputsAreZeros) {
  const Leaf table = leaf({3}, {10, 20, 30}), indices = leaf({2}, {1, 1}, DType::kInt64);
  const std::vector<Tensor> found =
      gradients(sum(gather(table.tensor, indices.tensor, 0)), {indices.tensor, table.tensor});
  EXPECT_EQ(found[0].type(), indices.value.type);
  EXPECT_EQ(evaluate(found[0], {table, indices}), (Values{0, 0}));
  EXPECT_EQ(evaluate(found[1], {table, indices}), (Values{0, 2, 0}));
}

// silu_gradient has no rule of its own: its decomposition is differentiated. Here both inputs are one tensor, and one
// input depends on the other, so that nothing may be counted twice.
TEST(Gradients, OfCompositesWithoutARuleGoThroughTheirDecomposition) {
  std::mt19937_64 random(5);
  const Operation& composite = find_operation("silu_gradient");
  ASSERT_EQ(composite.gradient, nullptr);
  const Leaf x = leaf({3}, {0.5, -1, 2});
  test::expect_central_differences({make_tensor(composite, {x.tensor, x.tensor})}, {x}, random);
  test::expect_central_differences({make_tensor(composite, {x.tensor, x.tensor * x.tensor})}, {x}, random);
  test::expect_central_differences({make_tensor(composite, {exp(x.tensor), x.tensor})}, {x}, random);
}

TEST(Gradients, OfSomeOutputsOfSeveral) {
  const Leaf x = leaf({4}, {3, 1, 4, 2});
  const auto [values, places] = top_k(x.tensor, 2);
  EXPECT_EQ(evaluate(gradients(sum(values * values), {x.tensor})[0], {x}), (Values{6, 0, 8, 0}));
  EXPECT_EQ(evaluate(gradients(sum(cast(places, DType::kFloat64)), {x.tensor})[0], {x}), Values(4, 0.0));
}

TEST(Gradients, KeepToTheBranchThatIsTaken) {
  const Leaf x = leaf({2}, {1000, -1});
  const Values found = evaluate(gradients(sum(activation("elu", x.tensor)), {x.tensor})[0], {x});
  EXPECT_EQ(found[0], 1);
  EXPECT_DOUBLE_EQ(found[1], std::exp(-1));
}

TEST(Gradients, ShareBetweenEqualMaxima) {
  const Leaf x = leaf({4}, {2, 7, 7, 1});
  EXPECT_EQ(evaluate(gradients(reduce_max(x.tensor, {0}), {x.tensor})[0], {x}), (Values{0, 0.5, 0.5, 0}));
}

TEST(Gradients, TakeTheTypesOfTheirTensors) {
  const Tensor x = make_input({DType::kFloat32, {2, 3}}), w = make_input({DType::kFloat32, {4, 3}});
  for (const DType computed : {DType::kBFloat16, DType::kFloat32}) {
    const Tensor loss = sum(cast(linear(x, w, {}, {.dtype = computed}), DType::kFloat32));
    for (const Tensor& gradient : gradients(loss, {x, w})) EXPECT_EQ(gradient.dtype(), DType::kFloat32);
  }
}

TEST(Gradients, OfGradientsAreSecondDerivatives) {
  const Leaf x = leaf({}, {0.7});
  const Tensor first = gradients(sin(x.tensor) * x.tensor, {x.tensor})[0];
  const Tensor second = gradients(first, {x.tensor})[0];
  EXPECT_NEAR(evaluate(second, {x})[0], 2 * std::cos(0.7) - 0.7 * std::sin(0.7), 1e-12);
}

TEST(Gradients, WalkLongChains) {
  const Leaf x = leaf({}, {1});
  Tensor y = x.tensor;
  for (int i = 0; i < 50'000; ++i) y = y * 1.0;
  EXPECT_EQ(evaluate(gradients(y, {x.tensor})[0], {x}), Values{1});
}

TEST(Gradients, RefuseWhatHasNone) {
  const Tensor x = make_input({DType::kFloat32, {2}}), key = make_input({DType::kInt64, {2}});
  EXPECT_EQ(test::message_of([&] { gradients(x, {x}); }), "gradients: expected a loss of one element, found f32[2]");
  EXPECT_THROW(gradients(sum(key), {key}), Error);
  EXPECT_THROW(gradients({x}, {}, {x}), Error);
  EXPECT_THROW(gradients({x}, {key}, {x}), Error);
  EXPECT_THROW(gradients(sum(x), {Tensor()}), Error);
}

}  // namespace
}  // namespace transom
