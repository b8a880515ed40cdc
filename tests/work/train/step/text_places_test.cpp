// SPDX-License-Identifier: Apache-2.0
// Batches without their padding: which places are left, and that losses and gradients are those of the padded rows.
#include "work/train/step/text_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "support/golden.h"
#include "support/message.h"
#include "support/test_names.h"
#include "transom/config.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

using Ids = std::vector<int64_t>;
const Ids kLengths = {16, 15, 16, 9, 13,
                      16, 16, 12, 16};  // 129 tokens, of which there are 132 when they are rounded up

// Rows of so many tokens each, padded behind them; their own tokens are the labels.
Batch batch_of(const Ids& lengths, int64_t padding_id, int64_t length, bool left = false) {
  Batch batch;
  PaddedRows ids{.rows = static_cast<int64_t>(lengths.size()), .length = length, .values = {}};
  PaddedRows mask = ids, labels = ids;
  for (size_t row = 0; row < lengths.size(); ++row)
    for (int64_t place = 0; place < length; ++place) {
      const bool real = left ? place >= length - lengths[row] : place < lengths[row];
      const int64_t id = 3 + (static_cast<int64_t>(row) * 7 + place * 5) % 11;
      ids.values.push_back(real ? id : padding_id);
      mask.values.push_back(real);
      labels.values.push_back(real ? id : kIgnoredLabel);
    }
  batch.sequences = {{"input_ids", ids}, {"attention_mask", mask}, {"labels", labels}};
  return batch;
}

std::unique_ptr<Model> golden_model(const std::string& name) {
  auto model = Model::from_pretrained((test::golden_folder() / name / "model").string());
  for (const auto& parameter : model->parameters()) parameter->value.set_requires_grad();
  return model;
}

TEST(TextPlaces, TheirNumberIsRoundedUpWithPaddingOfItsOwnTexts) {
  NamedTensors inputs;
  const Batch batch = batch_of(kLengths, 0, 16);
  add_places(batch, BatchPadding::kGoesBehindTexts, inputs);
  const Ids places = inputs.at("token_places").to_vector<int64_t>(), texts = inputs.at("seq_idx").to_vector<int64_t>();
  ASSERT_EQ(places.size(), 132u);
  EXPECT_EQ(inputs.at("seq_idx").shape(), (Shape{1, 132}));
  EXPECT_EQ(std::set<int64_t>(places.begin(), places.end()).size(), places.size());
  const Ids& mask = batch.sequences.at("attention_mask").values;
  for (size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(mask[static_cast<size_t>(places[i])], i < 129 ? 1 : 0);
    EXPECT_EQ(texts[i], i < 129 ? places[i] / 16 : 9);
  }
}

TEST(TextPlaces, NoTextOfPaddingIsLongerThanTheLongest) {
  NamedTensors inputs;
  add_places(batch_of(Ids(130, 1), 0, 2), BatchPadding::kGoesBehindTexts, inputs);
  const Ids texts = inputs.at("seq_idx").to_vector<int64_t>();
  ASSERT_EQ(texts.size(), 132u);
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i], static_cast<int64_t>(i));
}

TEST(TextPlaces, PaddingInFrontIsTakenOutWhereItIsAskedFor) {
  const Batch batch = batch_of({3, 5}, 0, 5, /*left=*/true);
  NamedTensors usual, asked;
  add_places(batch, BatchPadding::kGoesBehindTexts, usual);
  EXPECT_FALSE(usual.find("token_places").defined());
  add_places(batch, BatchPadding::kGoes, asked);
  EXPECT_EQ(asked.at("token_places").to_vector<int64_t>(), (Ids{2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(with_few_lengths(batch, BatchPadding::kGoesBehindTexts).sequences, batch.sequences);
}

TEST(TextPlaces, RowsAreWidenedWithTheirOwnPadding) {
  Batch batch = batch_of({4, 5}, 9, 5);
  batch.sequences["KL_input_ids"] = {.rows = 2, .length = 5, .values = Ids(10, 7)};
  batch.sequences["KL_attention_mask"] = {.rows = 2, .length = 5, .values = Ids(10, 1)};
  const Batch wide = with_few_lengths(batch, BatchPadding::kGoesBehindTexts);
  EXPECT_EQ(wide.sequences.at("input_ids").length, 6);
  EXPECT_EQ(wide.sequences.at("input_ids").values[5], 9);
  EXPECT_EQ(wide.sequences.at("labels").values[11], kIgnoredLabel);
  EXPECT_EQ(wide.sequences.at("attention_mask").values[11], 0);
  EXPECT_EQ(wide.sequences.at("KL_input_ids"), batch.sequences.at("KL_input_ids"));  // it has no padding
}

TEST(TextPlaces, ChoicesKeepTheirPadding) {
  const auto model = golden_model("bert-multiple-choice");
  EXPECT_EQ(padding_of_batches({}, *model, false, false), BatchPadding::kStays);
}

TEST(TextPlaces, AnswersAreLookedForInPaddingToo) {
  TrainingArguments arguments;
  const auto model = golden_model("bert-question-answering");
  EXPECT_EQ(padding_of_batches(arguments, *model, false, false), BatchPadding::kStays);
  arguments.padding_free = true;
  EXPECT_NE(test::message_of([&] {
              padding_of_batches(arguments, *model, false, false);
            }).find("--padding_free: an answer is looked for in all places"),
            std::string::npos);
}

struct LossAndGradients {
  double loss = 0;
  std::vector<std::vector<float>> gradients;
};

LossAndGradients trained(const Model& model, const NamedTensors& inputs) {
  std::vector<Tensor> weights;
  for (const auto& parameter : model.parameters()) weights.push_back(parameter->value);
  const Tensor loss = model.forward(inputs).at("loss");
  LossAndGradients result;
  std::vector<Tensor> all{loss};
  for (const Tensor& gradient : gradients(loss, weights))
    if (gradient.defined()) all.push_back(gradient);
  eval(all);
  result.loss = static_cast<double>(cast(loss, DType::kFloat32).item<float>());
  for (size_t i = 1; i < all.size(); ++i) result.gradients.push_back(cast(all[i], DType::kFloat32).to_vector<float>());
  return result;
}

class WithoutPadding : public testing::TestWithParam<std::string> {};

// Sums run over the same numbers in another order: a few units in the last place of the largest, through the layers.
TEST_P(WithoutPadding, LossAndGradientsAreThoseOfThePaddedRows) {
  const auto model = golden_model(GetParam());
  if (!model->takes_texts_in_rows()) GTEST_SKIP() << "one text a row";
  Batch batch = batch_of(kLengths, model->config().get_int("pad_token_id", 0), 16);
  // A token that has the padding's number is no padding.
  batch.sequences["input_ids"].values[4] = model->config().get_int("pad_token_id", 0);
  const LossAndGradients padded = trained(*model, to_inputs(batch, *model));
  const NamedTensors inputs = to_inputs(batch, *model, BatchPadding::kGoesBehindTexts);
  ASSERT_EQ(inputs.at("token_places").size(), 132);
  const LossAndGradients free = trained(*model, inputs);
  EXPECT_NEAR(free.loss, padded.loss, 1e-5 * std::abs(padded.loss));
  ASSERT_EQ(free.gradients.size(), padded.gradients.size());
  double largest = 0;
  for (const auto& gradient : padded.gradients)
    for (const float value : gradient) largest = std::max(largest, std::abs(static_cast<double>(value)));
  for (size_t i = 0; i < free.gradients.size(); ++i)
    for (size_t k = 0; k < free.gradients[i].size(); ++k)
      ASSERT_NEAR(free.gradients[i][k], padded.gradients[i][k], 1e-5 * largest) << i << " " << k;
}

// All models of tokens that are tried against Transformers.
std::vector<std::string> language_models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test::golden_folder())) {
    const std::string name = entry.path().filename().string();
    const bool tokens = name.ends_with("-lm") || name.ends_with("-masked");
    if (tokens && name.find("-other-") == name.npos && std::filesystem::exists(entry.path() / "model" / "config.json"))
      names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(LanguageModels, WithoutPadding, testing::ValuesIn(language_models()), test::NameOfCase());

}  // namespace
}  // namespace transom
