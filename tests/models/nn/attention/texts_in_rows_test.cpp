// SPDX-License-Identifier: Apache-2.0
// Several texts in a row, and batches whose padding was taken out: each text has the numbers that it has alone, in
// every family, and none has part in another's.
#include <gtest/gtest.h>

#include <cstring>

#include "models/nn/losses/token_loss.h"
#include "support/golden.h"
#include "support/message.h"
#include "support/test_names.h"
#include "transom/gradients.h"
#include "transom/model.h"
#include "transom/ops.h"

namespace transom {
namespace {

using Ids = std::vector<int64_t>;
const std::vector<Ids> kTexts = {{5, 9, 7, 11}, {8, 6}, {10, 12, 9, 5, 13, 7}};

std::unique_ptr<Model> golden_model(const std::string& name) {
  return Model::from_pretrained((test::golden_folder() / name / "model").string());
}

// The first output that has a row for each token.
std::vector<float> values_of(const NamedTensors& outputs) {
  for (const char* name : {"logits", "last_hidden_state"})
    if (const Tensor found = outputs.find(name); found.defined()) return found.to_vector<float>();
  ADD_FAILURE() << "no output of tokens";
  return {};
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double largest = 0;
  for (const float value : expected) largest = std::max(largest, std::abs(static_cast<double>(value)));
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-5 * largest) << what << " " << i;
}

class TextsOfFamilies : public testing::TestWithParam<std::string> {};

TEST_P(TextsOfFamilies, EachTextOfARowIsWhatItIsAlone) {
  const NoGradient inference;
  const auto model = golden_model(GetParam());
  ASSERT_TRUE(model->takes_texts_in_rows());
  Ids ids, numbers;
  std::vector<float> alone;
  for (size_t text = 0; text < kTexts.size(); ++text) {
    const auto length = static_cast<int64_t>(kTexts[text].size());
    const auto one = values_of(model->forward({{"input_ids", Tensor::from(kTexts[text], {1, length})}}));
    alone.insert(alone.end(), one.begin(), one.end());
    ids.insert(ids.end(), kTexts[text].begin(), kTexts[text].end());
    numbers.insert(numbers.end(), kTexts[text].size(), static_cast<int64_t>(text));
  }
  const Shape row{1, static_cast<int64_t>(ids.size())};
  const auto packed =
      values_of(model->forward({{"input_ids", Tensor::from(ids, row)}, {"seq_idx", Tensor::from(numbers, row)}}));
  expect_near(packed, alone, "packed");
}

TEST_P(TextsOfFamilies, ABatchWithoutItsPaddingGivesTheSame) {
  const NoGradient inference;
  const auto model = golden_model(GetParam());
  const int64_t rows = static_cast<int64_t>(kTexts.size()), length = 6;
  Ids ids, mask, places, numbers;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t place = 0; place < length; ++place) {
      const Ids& text = kTexts[static_cast<size_t>(row)];
      const bool real = place < static_cast<int64_t>(text.size());
      ids.push_back(real ? text[static_cast<size_t>(place)] : 1);
      mask.push_back(real);
      if (real) places.push_back(row * length + place), numbers.push_back(row);
    }
  NamedTensors inputs{{"input_ids", Tensor::from(ids, {rows, length})},
                      {"attention_mask", Tensor::from(mask, {rows, length})}};
  std::vector<float> padded = values_of(model->forward(inputs));
  const int64_t tokens = static_cast<int64_t>(places.size()),
                width = static_cast<int64_t>(padded.size()) / (rows * length);
  inputs.set("token_places", Tensor::from(places, {tokens}));
  inputs.set("seq_idx", Tensor::from(numbers, {1, tokens}));
  const std::vector<float> taken = values_of(model->forward(inputs));
  ASSERT_EQ(taken.size(), padded.size());
  std::vector<float> expected, found;
  for (const int64_t place : places)
    for (int64_t i = 0; i < width; ++i) {
      expected.push_back(padded[static_cast<size_t>(place * width + i)]);
      found.push_back(taken[static_cast<size_t>(place * width + i)]);
    }
  expect_near(found, expected, "tokens");
}

INSTANTIATE_TEST_SUITE_P(All, TextsOfFamilies,
                         testing::Values("llama-lm", "gpt2-lm", "gpt-neox-lm", "bloom-lm", "opt-lm", "mistral-lm",
                                         "gemma2-lm", "gemma3-lm", "qwen3-lm", "phi3-lm", "gpt-bigcode-lm",
                                         "starcoder2-lm", "bert-model", "roberta-model", "distilbert-model",
                                         "albert-model", "electra-model", "modernbert-model"),
                         test::NameOfCase());

// Gradients by the embeddings of two texts in a row: those of the first keep their bits, whatever the second is.
TEST(TextsInRows, NoTextHasPartInTheGradientsOfAnother) {
  const auto model = golden_model("llama-lm");
  const int64_t first = 5, second = 7, width = model->parameters()[0]->value.dim(1);
  const auto gradient_of = [&](float other) {
    std::vector<float> values(static_cast<size_t>((first + second) * width));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>(i * 7 % 23) - 0.1f;
    for (size_t i = static_cast<size_t>(first * width); i < values.size(); ++i) values[i] *= other;
    Tensor embeddings = Tensor::from(values, {1, first + second, width});
    embeddings.set_requires_grad();
    Ids labels, numbers;
    for (int64_t i = 0; i < first + second; ++i) labels.push_back(i % 9 + 3), numbers.push_back(i < first ? 0 : 1);
    const Shape row{1, first + second};
    ForwardContext context;
    context.num_items_in_batch = Tensor::scalar(10);
    const Tensor loss = model
                            ->forward({{"inputs_embeds", embeddings},
                                       {"labels", Tensor::from(labels, row)},
                                       {"seq_idx", Tensor::from(numbers, row)}},
                                      context)
                            .at("loss");
    std::vector<float> all = gradients(loss, {embeddings})[0].to_vector<float>();
    all.resize(static_cast<size_t>(first * width));
    return all;
  };
  const std::vector<float> one = gradient_of(1), other = gradient_of(-3);
  EXPECT_EQ(std::memcmp(one.data(), other.data(), one.size() * sizeof(float)), 0);
  EXPECT_GT(std::abs(one[0]), 0);
}

TEST(TextsInRows, NumbersOutOfOrderAndOtherModelsAreRefused) {
  const auto model = golden_model("llama-lm");
  const Tensor ids = Tensor::from(Ids{5, 6, 7}, {1, 3});
  const auto message = [&](const Ids& numbers) {
    return test::message_of([&] { model->forward({{"input_ids", ids}, {"seq_idx", Tensor::from(numbers, {1, 3})}}); });
  };
  EXPECT_NE(message({0, 2, 2}).find("seq_idx: row 0, place 1: expected 0 or 1, found 2"), std::string::npos);
  EXPECT_NE(message({1, 1, 1}).find("place 0: expected 0"), std::string::npos);
  const auto other = golden_model("mpnet-model");
  EXPECT_NE(test::message_of([&] {
              other->forward({{"input_ids", ids}, {"seq_idx", Tensor::from(Ids{0, 0, 1}, {1, 3})}});
            }).find("takes no input"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
