// SPDX-License-Identifier: Apache-2.0
#include "data/columns.h"
#include "support/message.h"
#include "transom/error.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

using enum ColumnType;
using Names = std::vector<std::string>;
using Ints = std::vector<int64_t>;

Dataset one_row(std::vector<Column> columns, Row row) {
  return Dataset::from_rows(std::move(columns), {std::move(row)});
}

TEST(Columns, Classification) {
  ScriptArguments arguments;
  Dataset data = one_row({{"idx", kInt}, {"b", kString}, {"label", kString}, {"c", kString}, {"d", kString}},
                         {int64_t{1}, "x", "y", "z", "w"});
  EXPECT_EQ(classification_columns(data, arguments).text, (std::vector<size_t>{1, 3}));
  EXPECT_EQ(classification_columns(data, arguments).label, 2U);
  arguments.text_column_names = "d,b";
  EXPECT_TRUE(classification_columns(data, arguments).joined);
  EXPECT_EQ(classification_columns(data, arguments).text, (std::vector<size_t>{4, 1}));
  arguments = {};
  arguments.label_column_name = "lable";
  EXPECT_EQ(
      test::message_without_folders([&] { classification_columns(data, arguments); }),
      "rows: row 1: expected a column 'lable' (label_column_name), found idx, b, label, c, d, did you mean 'label'?");
  arguments = {};
  arguments.task_name = "qnli";
  EXPECT_THROW(classification_columns(data, arguments), Error);
  data = one_row({{"sentence2", kString}, {"x", kString}, {"sentence1", kString}}, {"x", "y", "z"});
  EXPECT_EQ(classification_columns(data, {}).text, (std::vector<size_t>{2, 0}));
  EXPECT_FALSE(classification_columns(data, {}).label);
  EXPECT_NE(
      test::message_without_folders([&] { need_label(classification_columns(data, {}), data); }).find("--column_names"),
      std::string::npos);
  EXPECT_THROW(classification_columns(one_row({{"label", kInt}}, {int64_t{1}}), {}), Error);
}

TEST(Columns, OptionsOfFiles) {
  const DatasetOptions options = dataset_options({.column_names = {"a,b", "c"}, .delimiter = ";"});
  EXPECT_EQ(options.delimiter, ';');
  EXPECT_EQ(options.column_names, (Names{"a", "b", "c"}));
  EXPECT_FALSE(dataset_options({}).delimiter);
}

TEST(Columns, TokensAnswersAndText) {
  const Dataset tokens = one_row({{"id", kInt}, {"tokens", kStrings}, {"pos_tags", kInts}, {"ner_tags", kStrings}},
                                 {int64_t{1}, Names{"a"}, Ints{1}, Names{"O"}});
  EXPECT_EQ(token_columns(tokens, {}).tags, 3U);
  ScriptArguments arguments;
  arguments.task_name = "pos";
  EXPECT_EQ(token_columns(tokens, arguments).tags, 2U);
  EXPECT_THROW(token_columns(one_row({{"words", kString}}, {"a"}), {}), Error);

  const Dataset answers =
      one_row({{"context", kString}, {"question", kString}, {"answers.text", kStrings}}, {"a", "b", Names{"a"}});
  EXPECT_EQ(answer_columns(answers).question, 1U);
  EXPECT_EQ(answer_columns(answers).answer_text, 2U);
  EXPECT_FALSE(answer_columns(answers).answer_start);
  EXPECT_EQ(text_column(answers, {}), 0U);
  EXPECT_FALSE(is_tokenised(answers));
  EXPECT_TRUE(is_tokenised(one_row({{"input_ids", kInts}}, {Ints{1}})));
}

TEST(Labels, KindAndOrder) {
  const Dataset words = Dataset::from_rows({{"label", kString}}, {{"b"}, {"a"}, {"b"}});
  Labels labels = Labels::of(words, 0);
  EXPECT_EQ(labels.kind(), LabelKind::kClasses);
  EXPECT_EQ(labels.names(), (Names{"a", "b"}));
  EXPECT_EQ(labels.id(Value("b"), "here"), 1);
  EXPECT_EQ(test::message_without_folders([&] { labels.id(Value("c"), "here"); }),
            "here: expected one of the labels a, b, found 'c'");
  EXPECT_FALSE(labels.reorder({"b"}));
  EXPECT_TRUE(labels.reorder({"b", "a"}));
  EXPECT_EQ(labels.id(Value("b"), "here"), 0);

  const Dataset numbers = Dataset::from_rows({{"label", kInt}}, {{int64_t{10}}, {int64_t{2}}});
  EXPECT_EQ(Labels::of(numbers, 0).names(), (Names{"2", "10"}));
  EXPECT_EQ(Labels::of(numbers, 0, true).kind(), LabelKind::kRegression);
  EXPECT_EQ(Labels::of(Dataset::from_rows({{"label", kFloat}}, {{0.5}}), 0).kind(), LabelKind::kRegression);

  const Labels several =
      Labels::of(Dataset::from_rows({{"label", kStrings}}, {{Names{"x", "y"}}, {Names{}}, {Names{"a"}}}), 0);
  EXPECT_EQ(several.kind(), LabelKind::kMultiLabel);
  EXPECT_EQ(several.indicators(Value(Names{"y", "a"}), "here"), (std::vector<float>{1, 0, 1}));
  EXPECT_THROW(Labels::of(Dataset::from_rows({{"label", kString}}, {{std::monostate()}}), 0), Error);
}

}  // namespace
}  // namespace transom
