// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "support/message.h"
#include "work/train/tasks/task_data.h"
#include "work/train/tiny_model.h"

namespace transom {
namespace {

constexpr const char* kGpt2 = R"({"model_type": "gpt2", "vocab_size": 20, "n_embd": 16, "n_layer": 1, "n_head": 2,
  "n_positions": 8, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0, "pad_token_id": 0})";

// A tiny GPT-2 in the folder of a TinyModel, whose vocabulary it has.
class TinyDecoder : public TinyModel {
 public:
  TinyDecoder() { Model::from_config(kGpt2, {.task = "text-generation"})->save_pretrained(path().string()); }
  TrainArguments language(const std::string& file, std::vector<std::string> more) const {
    more.insert(more.end(), {"--task", "text-generation", "--train_file", file});
    return arguments(more);
  }
};

constexpr const char* kText = "Ann went to Rome\nthe old tower is old\nAnn\n";

TEST(CausalLanguageModelling, JoinsAllTextAndCutsItIntoBlocks) {
  const TinyDecoder model;
  const TaskSetup setup = prepare_task(model.language(model.write("train.txt", kText), {"--block_size", "4"}));
  // 6 + 7 + 3 tokens, with [CLS] and [SEP] for every line.
  ASSERT_EQ(setup.train->rows, 4);
  const Batch batch = setup.train->batch({0, 3});
  const PaddedRows expected{2, 4, {kCls, kAnn, kWent, kTo, kSep, kCls, kAnn, kSep}};
  EXPECT_EQ(batch.sequences.at("input_ids"), expected);
  EXPECT_EQ(batch.sequences.at("labels"), expected);
  EXPECT_EQ(batch.sequences.at("attention_mask").values, std::vector<int64_t>(8, 1));
  EXPECT_EQ(setup.model->architecture(), "GPT2LMHeadModel");
}

TEST(CausalLanguageModelling, ABlockIsAsLongAsTheModelHasPositions) {
  const TinyDecoder model;
  const TaskSetup setup = prepare_task(model.language(model.write("train.txt", kText), {}));
  EXPECT_EQ(setup.train->lengths, (std::vector<int64_t>{8, 8}));
}

TEST(CausalLanguageModelling, SamplesAreBlocks) {
  const TinyDecoder model;
  const std::string file = model.write("train.txt", kText);
  const TaskSetup setup = prepare_task(model.language(
      file, {"--validation_file", file, "--block_size", "4", "--max_train_samples", "3", "--max_eval_samples", "1"}));
  EXPECT_EQ(setup.train->rows, 3);
  EXPECT_EQ(setup.validation->rows, 1);
}

TEST(CausalLanguageModelling, KeepsTheFirstLinesForValidation) {
  const TinyDecoder model;
  std::string text;
  for (int i = 0; i < 10; ++i) text += "Rome went\n";
  const TaskSetup setup = prepare_task(model.language(
      model.write("train.txt", text), {"--do_eval", "--validation_split_percentage", "20", "--block_size", "4"}));
  EXPECT_EQ(setup.train->rows, 8);
  EXPECT_EQ(setup.validation->rows, 2);
}

TEST(CausalLanguageModelling, ReadsTheColumnOfJsonLinesAndOfCsv) {
  const TinyDecoder model;
  for (const std::string& file :
       {model.write("train.jsonl", "{\"id\": 1, \"text\": \"Ann went\"}\n{\"id\": 2, \"text\": \"Ann\"}\n"),
        model.write("train.csv", "id,text\n1,Ann went\n2,Ann\n")}) {
    const TaskSetup setup = prepare_task(model.language(file, {"--block_size", "7"}));
    EXPECT_EQ(setup.train->batch({0}).sequences.at("input_ids").values,
              (std::vector<int64_t>{kCls, kAnn, kWent, kSep, kCls, kAnn, kSep}))
        << file;
  }
}

TEST(CausalLanguageModelling, LabelsOfTokenisedRowsAreTheirTokens) {
  const TinyDecoder model;
  const TaskSetup setup = prepare_task(
      model.language(model.write("train.jsonl", "{\"input_ids\": [5, 6, 7]}\n{\"input_ids\": [5]}\n"), {}));
  EXPECT_EQ(setup.train->batch({0, 1}).sequences.at("labels"), (PaddedRows{2, 3, {5, 6, 7, 5, -100, -100}}));
}

TEST(CausalLanguageModelling, ScoresTheNextTokenAndAddsPerplexity) {
  const TinyDecoder model;
  const TaskSetup setup = prepare_task(model.language(model.write("train.txt", kText), {}));
  Predictions predictions{.rows = 2};
  predictions.outputs.push_back({"predictions", {2, 3}, {6, 9, 9, 4, 5, 9}});
  predictions.labels = {5, 6, 7, 3, 4, -100};  // found: 6 right, 9 for 7 wrong; 4 right
  const Metrics metrics = setup.compute_metrics(predictions);
  ASSERT_EQ(metrics.size(), 1u);
  EXPECT_DOUBLE_EQ(metrics[0].second, 2.0 / 3);
  Metrics evaluation = {{"eval_loss", 2}};
  setup.complete_evaluation(evaluation);
  EXPECT_EQ(evaluation.back(), (std::pair<std::string, double>("perplexity", std::exp(2.0))));
}

TEST(CausalLanguageModelling, RefusesTextThatFillsNoBlock) {
  const TinyDecoder model;
  const TrainArguments arguments = model.language(model.write("train.txt", "Ann\n"), {});
  EXPECT_EQ(test::message_without_folders([&] { prepare_task(arguments); }),
            "train.txt: expected at least block_size (8) tokens of text; give a smaller one");
}

}  // namespace
}  // namespace transom
