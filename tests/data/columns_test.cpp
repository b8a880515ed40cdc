// SPDX-License-Identifier: Apache-2.0
#include "data/columns.h"
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

// The columns of a file as it is read, with what a label in it makes of them.
std::string labels_or_error(const std::string& text, std::optional<bool> regression = std::nullopt,
                            std::optional<int64_t> rows = std::nullopt) {
  const test::TemporaryFolder folder;
  Dataset data = Dataset::load(folder.write("a.csv", text));
  if (rows) data = data.first(*rows);
  std::string result;
  const std::string message = test::message_without_folders([&] {
    const Labels labels = Labels::of(data, *data.find("label"), regression);
    result = labels.kind() == LabelKind::kRegression ? "regression" : "classes";
    for (const std::string& name : labels.names()) result += " " + name;
  });
  return message.empty() ? result : message;
}

// A cell that is empty turns a column of whole numbers into one of fractions; it must not make a regression of it.
TEST(Labels, NoneMayBeMissing) {
  EXPECT_EQ(labels_or_error("text,label\na,1\nb,0\nc,10\nd,9\n"), "classes 0 1 9 10");
  EXPECT_EQ(labels_or_error("text,label\na,1\nb,\nc,0\n"),
            "a.csv: row 2, column 'label': expected a label, found nothing, or nan");
  EXPECT_EQ(labels_or_error("text,label\na,1\nb,nan\nc,0\n"),
            "a.csv: row 2, column 'label': expected a label, found nothing, or nan");
  EXPECT_EQ(labels_or_error("text,label\na,pos\nb,\n"),
            "a.csv: row 2, column 'label': expected a label, found nothing");
  EXPECT_EQ(labels_or_error("text,label\na,true\nb,\n"),
            "a.csv: row 2, column 'label': expected a label, found nothing");
  // Fractions are a regression, as in Transformers' scripts, and none may be missing there either.
  EXPECT_EQ(labels_or_error("text,label\na,0.5\nb,1\n"), "regression");
  EXPECT_EQ(labels_or_error("text,label\na,1.0\nb,0.0\n"), "regression");
  EXPECT_EQ(labels_or_error("text,label\na,1.0\nb,0.0\n", false), "classes 0 1");
  EXPECT_EQ(labels_or_error("text,label\na,0.5\nb,\n"),
            "a.csv: row 2, column 'label': expected a label, found nothing, or nan");
  EXPECT_EQ(labels_or_error("text,label\na,0.5\nb,inf\n"), "a.csv: row 2, column 'label': expected a label, found inf");
  EXPECT_EQ(labels_or_error("text,label\na,1\nb,\n", true),
            "a.csv: row 2, column 'label': expected a label, found nothing, or nan");
  // Behind the rows that are taken it has no part in what the labels are.
  EXPECT_EQ(labels_or_error("text,label\na,1\nb,10\nc,9\nd,\n", std::nullopt, 3), "classes 1 9 10");
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
