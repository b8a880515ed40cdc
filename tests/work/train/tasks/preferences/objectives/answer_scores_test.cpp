// SPDX-License-Identifier: Apache-2.0
// What a model says of answers is the same whether all logits are kept or never more than some rows of them.
#include "work/train/tasks/preferences/objectives/answer_scores.h"

#include <gtest/gtest.h>

#include <cmath>

#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

// So many logits that they are not kept.
constexpr int64_t kRows = 2, kLength = 130, kWords = 70000;

void expect_close_values(const Tensor& found, const Tensor& expected, double bound, const char* what) {
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  const auto a = found.to_vector<float>(), b = expected.to_vector<float>();
  double largest = 1e-6;
  for (const float value : b) largest = std::max(largest, std::abs(static_cast<double>(value)));
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], bound * largest) << what << " " << i;
}

TEST(AnswerScores, AreThoseOfTheLogits) {
  const auto model = Model::from_config(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
      "vocab_size": 70000, "max_position_embeddings": 160, "hidden_size": 8, "num_hidden_layers": 1,
      "num_attention_heads": 2, "intermediate_size": 12, "initializer_range": 0.5})",
                                        {.seed = 3});
  std::vector<Tensor> weights;
  for (const auto& parameter : model->parameters()) weights.push_back(parameter->value.set_requires_grad());
  std::vector<int64_t> ids, mask, answers;
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t i = 0; i < kLength; ++i) {
      ids.push_back((i * 7919 + row * 104729) % kWords);
      mask.push_back(row == 1 && i >= kLength - 9 ? 0 : 1);
      answers.push_back(mask.back() == 1 && i > 40 + row ? 1 : 0);
    }
  const Shape shape{kRows, kLength};
  const NamedTensors given{{"input_ids", Tensor::from(ids, shape)}, {"attention_mask", Tensor::from(mask, shape)}};
  const AnswerMask counted = answer_mask(given.at("input_ids"), Tensor::from(answers, shape));
  const AnswerScores kept = scores_of_answers(*model, given, {}, AskedScores::kLogits),
                     fused = scores_of_answers(*model, given, {}, AskedScores::kMeasures);
  ASSERT_TRUE(kept.logits().defined());
  ASSERT_FALSE(fused.logits().defined());
  const Tensor expected = kept.log_probabilities(counted), found = fused.log_probabilities(counted);
  // Each token weighs differently, as in the losses of pairs.
  const Tensor signs = Tensor::from(std::vector<float>{1.0f, -0.5f}, {kRows, 1});
  const std::vector<Tensor> slopes = gradients(sum(found * signs), weights),
                            expected_slopes = gradients(sum(expected * signs), weights);
  expect_close_values(found, expected, 1e-6, "log probabilities");
  for (size_t i = 0; i < weights.size(); ++i)
    expect_close_values(slopes[i], expected_slopes[i], 1e-4, model->parameters()[i]->name.c_str());
  expect_close_values(fused.entropies() * counted.counted, kept.entropies() * counted.counted, 1e-5, "entropies");
  expect_close_values(fused.mean_logits() * counted.counted, kept.mean_logits() * counted.counted, 1e-4, "mean logits");
  expect_close_values(fused.right_predictions(counted) * counted.counted,
                      kept.right_predictions(counted) * counted.counted, 1e-6, "right predictions");
}

TEST(AnswerScores, KeepFewLogits) {
  const auto model = Model::from_config(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
      "vocab_size": 31, "max_position_embeddings": 16, "hidden_size": 8, "num_hidden_layers": 1,
      "num_attention_heads": 2, "intermediate_size": 12})",
                                        {.seed = 3});
  const Tensor ids = Tensor::from(std::vector<int64_t>{1, 2, 3, 4}, {1, 4});
  const NamedTensors given{{"input_ids", ids}, {"attention_mask", full({1, 4}, 1, DType::kInt64)}};
  EXPECT_TRUE(scores_of_answers(*model, given, {}, AskedScores::kMeasures).logits().defined());
}

}  // namespace
}  // namespace transom
