// SPDX-License-Identifier: Apache-2.0
// A loss that keeps no logits, against the same from logits.
#include "graph/ops/rows/linear_cross_entropy.h"

#include <gtest/gtest.h>

#include "transom/gradients.h"

namespace transom {
namespace {

constexpr int64_t kTokens = 11, kHiddenWidth = 6, kVocabulary = 13;

Tensor operand_of(const Shape& shape, int step) {
  int64_t size = 1;
  for (const int64_t extent : shape) size *= extent;
  std::vector<float> values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * static_cast<size_t>(step) % 17) / 8 - 1;
  Tensor tensor = Tensor::from(values, shape);
  tensor.set_requires_grad();
  return tensor;
}

void expect_equal_losses(const Tensor& found, const Tensor& expected, const char* what) {
  const auto a = found.to_vector<float>(), b = expected.to_vector<float>();
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << what << " " << i;
}

class FusedLoss : public testing::TestWithParam<int64_t> {};

TEST_P(FusedLoss, IsThatOfTheLogits) {
  for (const bool dynamic : {false, true}) {
    const Tensor x = operand_of({kTokens, kHiddenWidth}, 5), weight = operand_of({kVocabulary, kHiddenWidth}, 3),
                 bias = operand_of({kVocabulary}, 7);
    std::vector<int64_t> places;
    for (int64_t i = 0; i < kTokens; ++i) places.push_back(i % 4 == 1 ? -100 : i * 5 % kVocabulary);
    const Tensor labels = Tensor::from(places, {kTokens});
    const LinearCrossEntropy fused = linear_cross_entropy(x, weight, bias, labels,
                                                          {.rows = GetParam(),
                                                           .multiplier = 1.5,
                                                           .soft_cap = 3,
                                                           .dynamic = dynamic,
                                                           .measures = true,
                                                           .gradient = true,
                                                           .weight_gradient = true},
                                                          {});
    const Tensor logits = tanh(linear(x, weight, bias) * 0.5) * 3.0;
    const Tensor plain = cross_entropy(logits, labels);
    const Tensor losses = dynamic ? plain * exp(-plain).detach() : plain;
    expect_equal_losses(fused.losses, losses, "losses");
    expect_equal_losses(fused.total, sum(losses), "total");
    const Tensor logs = log_softmax(logits);
    expect_equal_losses(fused.entropy, -reduce_sum(exp(logs) * logs, {1}), "entropy");
    expect_equal_losses(fused.right, cast(equal(cast(arg_max(logits, 1), DType::kInt64), labels), DType::kFloat32),
                        "right");
    const std::vector<Tensor> all{x, weight, bias};
    const std::vector<Tensor> found = gradients(fused.total * 0.25, all), expected = gradients(sum(losses) * 0.25, all);
    for (size_t i = 0; i < all.size(); ++i) expect_equal_losses(found[i], expected[i], "gradient");
  }
}

// Each loss counts differently: preferences and policies weigh tokens.
TEST_P(FusedLoss, HasTheGradientsOfEachLoss) {
  for (const bool dynamic : {false, true}) {
    const Tensor x = operand_of({kTokens, kHiddenWidth}, 5), weight = operand_of({kVocabulary, kHiddenWidth}, 3),
                 bias = operand_of({kVocabulary}, 7), counts = operand_of({kTokens}, 11).detach();
    std::vector<int64_t> places;
    for (int64_t i = 0; i < kTokens; ++i) places.push_back(i % 4 == 1 ? -100 : i * 5 % kVocabulary);
    const Tensor labels = Tensor::from(places, {kTokens});
    const LinearCrossEntropy fused = linear_cross_entropy(
        x, weight, bias, labels,
        {.rows = GetParam(), .multiplier = 1.5, .soft_cap = 3, .dynamic = dynamic, .through_losses = true}, {});
    const Tensor plain = cross_entropy(tanh(linear(x, weight, bias) * 0.5) * 3.0, labels);
    const Tensor losses = dynamic ? plain * exp(-plain).detach() : plain;
    expect_equal_losses(fused.losses, losses, "losses");
    const std::vector<Tensor> all{x, weight, bias};
    const auto of_both = [&](const Tensor& each, const Tensor& total) { return sum(each * counts) + total * 0.5; };
    const std::vector<Tensor> found = gradients(of_both(fused.losses, fused.total), all),
                              expected = gradients(of_both(losses, sum(losses)), all);
    for (size_t i = 0; i < all.size(); ++i) expect_equal_losses(found[i], expected[i], "gradient");
    const Tensor of_x = gradients(of_both(fused.losses, fused.total), {x})[0];
    expect_equal_losses(of_x, expected[0], "gradient of x alone");
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, FusedLoss, testing::Values(1, 4, 100), testing::PrintToStringParamName());

// What was not computed beside the total is found all the same.
TEST(FusedLossGradients, ThatWereNotAskedForAreTaken) {
  const Tensor x = operand_of({kTokens, kHiddenWidth}, 5), weight = operand_of({kVocabulary, kHiddenWidth}, 3);
  const Tensor labels = Tensor::from(std::vector<int64_t>(kTokens, 3), {kTokens});
  const LinearCrossEntropy fused = linear_cross_entropy(x, weight, {}, labels, {.rows = 4, .gradient = true}, {});
  const Tensor expected = gradients(sum(cross_entropy(linear(x, weight), labels)), {weight})[0];
  expect_equal_losses(gradients(fused.total, {weight})[0], expected, "weight");
}

}  // namespace
}  // namespace transom
