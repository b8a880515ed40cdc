// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/message.h"
#include "work/train/tasks/task_data.h"
#include "work/train/tiny_model.h"

namespace transom {
namespace {

constexpr const char* kConll = "Ann\tB-PER\nRomes\tI-PER\nwent\tO\n\nRome\tB-LOC\n\n";
const PaddedRows kIds{2, 6, {kCls, kAnn, kRome, kPluralS, kWent, kSep, kCls, kRome, kSep, kPad, kPad, kPad}};

TEST(TokenClassification, LabelsTheFirstTokenOfAWord) {
  const TinyModel model;
  const TaskSetup setup = prepare_task(model.arguments({"--train_file", model.write("train.conll", kConll)}));
  EXPECT_EQ(setup.model->labels(), (std::vector<std::string>{"B-LOC", "B-PER", "I-PER", "O"}));
  const Batch batch = setup.train->batch({0, 1});
  EXPECT_EQ(batch.sequences.at("input_ids"), kIds);
  EXPECT_EQ(batch.sequences.at("labels"),
            (PaddedRows{2, 6, {-100, 1, 2, -100, 3, -100, -100, 0, -100, -100, -100, -100}}));
  EXPECT_EQ(setup.train->lengths, (std::vector<int64_t>{6, 3}));
}

// As run_ner finds them: before rows are left out.
TEST(TokenClassification, HasTheLabelsOfAllRows) {
  const TinyModel model;
  const TaskSetup setup =
      prepare_task(model.arguments({"--train_file", model.write("train.conll", kConll), "--max_train_samples", "1"}));
  EXPECT_EQ(setup.train->rows, 1);
  EXPECT_EQ(setup.model->labels(), (std::vector<std::string>{"B-LOC", "B-PER", "I-PER", "O"}));
}

TEST(TokenClassification, LabelsAllTokensAndCutsLongRows) {
  const TinyModel model;
  const TaskSetup setup = prepare_task(model.arguments(
      {"--train_file", model.write("train.conll", kConll), "--label_all_tokens", "--max_seq_length", "5"}));
  EXPECT_EQ(setup.train->batch({0}).sequences.at("labels"), (PaddedRows{1, 5, {-100, 1, 2, 2, -100}}));
}

TEST(TokenClassification, ReadsJsonLinesAndListsInCsv) {
  const TinyModel model;
  const std::string files[] = {
      model.write("train.jsonl", R"({"tokens": ["Ann", "Romes", "went"], "ner_tags": ["B-PER", "I-PER", "O"]})"
                                 "\n"
                                 R"({"tokens": ["Rome"], "ner_tags": ["B-LOC"]})"),
      model.write("words.csv", "tokens,tags\nAnn Romes went,B-PER I-PER O\nRome,B-LOC\n"),
      model.write("lists.csv",
                  "tokens,tags\n\"['Ann', 'Romes', 'went']\",\"[\"\"B-PER\"\", 'I-PER', 'O']\"\n['Rome'],['B-LOC']\n")};
  for (const std::string& file : files) {
    const TaskSetup setup = prepare_task(model.arguments({"--train_file", file, "--task", "token-classification"}));
    const Batch batch = setup.train->batch({0, 1});
    EXPECT_EQ(batch.sequences.at("input_ids"), kIds) << file;
    EXPECT_EQ(batch.sequences.at("labels").values[2], 2) << file;
  }
}

TEST(TokenClassification, KeepsTheLabelsOfACheckpointThatKnowsThem) {
  const TinyModel model(R"(, "id2label": {"0": "O", "1": "B-PER", "2": "I-PER", "3": "B-LOC", "4": "I-LOC"})");
  const TaskSetup setup = prepare_task(model.arguments({"--train_file", model.write("train.conll", kConll)}));
  EXPECT_EQ(setup.model->labels()[0], "O");
  EXPECT_EQ(setup.train->batch({1}).sequences.at("labels"), (PaddedRows{1, 3, {-100, 3, -100}}));
}

TEST(TokenClassification, NamesRowsWithMoreWordsThanTags) {
  const TinyModel model;
  const std::string file = model.write("train.jsonl", R"({"tokens": ["Ann"], "ner_tags": ["O"]})"
                                                      "\n"
                                                      R"({"tokens": ["Ann", "went"], "ner_tags": ["O"]})");
  const TrainArguments arguments = model.arguments({"--train_file", file});
  EXPECT_EQ(test::message_without_folders([&] { prepare_task(arguments); }),
            "train.jsonl: row 2: expected a tag for each of 2 tokens, found 1");
}

TEST(TokenClassification, ScoresEntitiesAndWritesTags) {
  const TinyModel model(R"(, "id2label": {"0": "O", "1": "B-PER", "2": "I-PER", "3": "B-LOC"})");
  const std::string labelled = model.write("dev.conll", kConll),
                    plain = model.write("test.jsonl", R"({"tokens": ["Ann", "Romes", "went"]})"
                                                      "\n"
                                                      R"({"tokens": ["Rome"]})");
  for (const std::string& test : {labelled, plain}) {
    const TaskSetup setup = prepare_task(model.arguments({"--task", "ner", "--test_file", test}));
    Predictions predictions{.rows = 2};
    // The second entity is found, the first is cut short.
    predictions.outputs.push_back({"predictions", {2, 6}, {0, 1, 0, 3, 0, 0, 0, 3, 0, 0, 0, 0}});
    const bool has_labels = test == labelled;
    if (has_labels) predictions.labels = {-100, 1, 2, -100, 0, -100, -100, 3, -100, -100, -100, -100};
    const Metrics metrics = setup.write_predictions(predictions, model.path());
    EXPECT_EQ(model.read("predictions.txt"), "B-PER O O\nB-LOC\n");
    EXPECT_EQ(metrics.size(), has_labels ? 4u : 0u);
    if (has_labels) {
      EXPECT_EQ(metrics[2].first, "f1");
      EXPECT_DOUBLE_EQ(metrics[2].second, 0.5);
      EXPECT_DOUBLE_EQ(metrics[3].second, 0.75);
    }
  }
}

}  // namespace
}  // namespace transom
