// SPDX-License-Identifier: Apache-2.0
#include "work/train/loop/model_inputs.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "support/message.h"

namespace transom {
namespace {

std::unique_ptr<Model> bert(const std::string& head, const std::string& more = "") {
  return Model::from_config(R"({"model_type": "bert", "architectures": ["Bert)" + head +
                            R"("], "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1,
      "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 16)" +
                            more + "}");
}

Batch of_labels(std::vector<int64_t> labels) {
  Batch batch;
  batch.labels = std::move(labels);
  return batch;
}

TEST(ModelInputs, ALabelThatIsNoClassIsNamed) {
  const auto model = bert("ForSequenceClassification");
  EXPECT_EQ(
      test::message_of([&] {
        to_inputs(of_labels({0, 1000}), *model);
      }),
      "labels: 1000 is no class of BertForSequenceClassification: expected numbers in [0, 2), or -100 for what is "
      "not counted");
  EXPECT_EQ(to_inputs(of_labels({0, 1, -100}), *model).at("labels").size(), 3);
}

TEST(ModelInputs, TheLabelsOfTokensAreCountedByTheVocabulary) {
  const auto model = bert("ForMaskedLM");
  Batch batch;
  batch.sequences["labels"] = {.rows = 2, .length = 2, .values = {-100, 49, 0, 1}};
  EXPECT_EQ(to_inputs(batch, *model).at("labels").shape(), (Shape{2, 2}));
  batch.sequences["labels"].values[1] = 50;
  EXPECT_NE(test::message_of([&] { to_inputs(batch, *model); }).find("[0, 50)"), std::string::npos);
}

TEST(ModelInputs, IdsBeyondTheirTablesAreNamed) {
  const auto model = bert("ForSequenceClassification");
  const auto message = [&](const std::string& name, int64_t id) {
    Batch batch;
    batch.sequences["input_ids"] = {.rows = 1, .length = 2, .values = {49, 0}};
    batch.sequences[name] = {.rows = 1, .length = 2, .values = {0, id}};
    return test::message_of([&] { to_inputs(batch, *model); });
  };
  EXPECT_EQ(message("input_ids", 49), "");
  EXPECT_EQ(message("input_ids", 50),
            "input_ids: 50 is no row of the table of BertForSequenceClassification: expected numbers in [0, 50), its "
            "vocab_size");
  EXPECT_NE(message("input_ids", -1), "");
  EXPECT_EQ(message("attention_mask", 50), "");
}

TEST(ModelInputs, LabelsOfARegressionAreNoClasses) {
  const auto model = bert("ForSequenceClassification", R"(, "num_labels": 1)");
  EXPECT_EQ(to_inputs(of_labels({7, 3}), *model).at("labels").size(), 2);
}

TEST(ModelInputs, LabelsWithoutInputsAreRefused) {
  const auto model = bert("ForSequenceClassification", R"(, "num_labels": 1)");
  Batch batch;
  batch.label_values = {0.5F};
  EXPECT_EQ(test::message_of([&] { to_inputs(batch, *model); }),
            "a batch: expected inputs beside its labels, found 1 labels for 0 rows of inputs");
}

}  // namespace
}  // namespace transom
