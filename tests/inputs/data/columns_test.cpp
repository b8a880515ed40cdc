// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/columns.h"
#include "support/message.h"
#include "support/temporary_folder.h"
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
  Dataset data =
      one_row({{"idx", kInt}, {"b", kString}, {"label", kString}, {"c", kString}}, {int64_t{1}, "x", "y", "z"});
  EXPECT_EQ(classification_columns(data, arguments).text, (std::vector<size_t>{1, 3}));
  EXPECT_EQ(classification_columns(data, arguments).label, 2U);
  data = one_row({{"idx", kInt}, {"b", kString}, {"label", kString}, {"c", kString}, {"d", kString}},
                 {int64_t{1}, "x", "y", "z", "w"});
  EXPECT_EQ(
      test::message_of([&] { classification_columns(data, arguments); }),
      "rows: row 1: expected one column of text, or the two of a pair, found idx, b, label, c, d; name the column "
      "with --text_column_name, or call those of a pair sentence1 and sentence2");
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
  data = one_row({{"text", kString}}, {"x"});
  EXPECT_NE(test::message_without_folders([&] {
              need_label(classification_columns(data, {}), data);
            }).find("texts without labels; --task text-generation"),
            std::string::npos);
}

TEST(Columns, NamesOfLabelsAreNoTextOfAPair) {
  const Row row{"good", int64_t{1}, "positive"};
  Dataset data = one_row({{"text", kString}, {"label", kInt}, {"label_text", kString}}, row);
  EXPECT_EQ(classification_columns(data, {}).text, std::vector<size_t>{0});
  data = one_row({{"text", kString}, {"stars", kInt}, {"stars_name", kString}}, row);
  EXPECT_EQ(classification_columns(data, {.label_column_name = "stars"}).text, std::vector<size_t>{0});
  EXPECT_EQ(classification_columns(data, {}).text, (std::vector<size_t>{0, 2}));
}

TEST(Columns, AFileThatWasNotSplitNamesTheDelimiter) {
  const test::TemporaryFolder folder;
  const Dataset data = Dataset::load(folder.write("a.csv", "text;label\nx;1\n"));
  const std::string missing = test::message_of([&] { need_label(classification_columns(data, {}), data); });
  EXPECT_NE(missing.find("--delimiter ';'"), std::string::npos) << missing;
  const std::string named = test::message_of([&] { classification_columns(data, {.text_column_name = "text"}); });
  EXPECT_NE(named.find("--delimiter ';'"), std::string::npos) << named;
  const std::string more = test::message_of([&] { Dataset::load(folder.write("b.csv", "text;label\nx, y;1\n")); });
  EXPECT_NE(more.find("--delimiter ';'"), std::string::npos) << more;
}

TEST(Columns, AFormatMayBeNamed) {
  const test::TemporaryFolder folder;
  const std::string file = folder.write("emerging.test.annotated", "Ann\tB-person\nwent\tO\n\nRome\tB-location\n");
  const std::string message = test::message_of([&] { Dataset::load(file); });
  EXPECT_NE(message.find("--file_format"), std::string::npos) << message;
  const Dataset data = Dataset::load(file, dataset_options({.file_format = "conll"}));
  EXPECT_EQ(data.size(), 2);
  EXPECT_TRUE(data.find("ner_tags"));
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
  EXPECT_EQ(
      test::message_of([&] { text_column(answers, {}); }),
      "rows: row 1: expected a column 'text', or one column of text alone, found context, question, answers.text; "
      "name it with --text_column_name");
  EXPECT_EQ(text_column(one_row({{"id", kInt}, {"body", kString}}, {int64_t{1}, "a"}), {}), 1U);
  EXPECT_THROW(text_column(one_row({{"id", kString}, {"turns", kJson}}, {"a", JsonList{"[{}]"}}), {}), Error);
  EXPECT_FALSE(is_tokenised(answers));
  EXPECT_TRUE(is_tokenised(one_row({{"input_ids", kInts}}, {Ints{1}})));
}

}  // namespace
}  // namespace transom
