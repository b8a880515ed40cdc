// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/labels.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/error.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

using enum ColumnType;
using Names = std::vector<std::string>;
using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;

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

TEST(Labels, KindAndOrder) {
  const Dataset words = Dataset::from_rows({{"label", kString}}, {{"b"}, {"a"}, {"b"}});
  Labels labels = Labels::of(words, 0);
  EXPECT_EQ(labels.kind(), LabelKind::kClasses);
  EXPECT_EQ(labels.names(), (Names{"a", "b"}));
  EXPECT_EQ(labels.id(Value("b"), "here"), 1);
  EXPECT_EQ(test::message_without_folders([&] { labels.id(Value("c"), "here"); }),
            "here: expected one of the labels a, b, found 'c'");
  const Labels of_model = labels.as_classes({"A", "none", "B"}, {0, 2});
  EXPECT_EQ(of_model.id(Value("b"), "here"), 2);
  EXPECT_EQ(of_model.names()[2], "B");

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

std::string refusal(Column column, const std::vector<Value>& values) {
  std::vector<Row> rows;
  for (const Value& value : values) rows.push_back({value});
  return test::message_of([&] { Labels::of(Dataset::from_rows({std::move(column)}, rows), 0); });
}

TEST(Labels, NoClassIsCalledNothing) {
  const Column text{"label", kString};
  EXPECT_EQ(refusal(text, {"a", ""}), "rows: row 2, column 'label': expected a label, found nothing");
  EXPECT_EQ(refusal({"label", kStrings}, {Names{"a", ""}}),
            "rows: row 1, column 'label': expected labels, found an empty one");
  EXPECT_EQ(refusal({"label", kJson}, {JsonList{R"([{"n":"x"}])"}}),
            "rows: row 1, column 'label': expected a label, or a list of labels, found a list of lists, objects or "
            "several types");
}

TEST(Labels, ListsOfFractionsHaveANumberForEachClass) {
  const Column column{"label", kFloats};
  const Labels labels = Labels::of(Dataset::from_rows({column}, {{Numbers{0, 1, 1}}, {Numbers{1, 0.25, 0}}}), 0);
  EXPECT_EQ(labels.kind(), LabelKind::kIndicators);
  EXPECT_EQ(labels.names(), (Names{"0", "1", "2"}));
  EXPECT_EQ(labels.indicators(Value(Numbers{1, 0.25, 0}), "here"), (std::vector<float>{1, 0.25F, 0}));
  EXPECT_THROW(labels.indicators(Value(Numbers{1, 0}), "here"), Error);
  EXPECT_EQ(refusal(column, {Numbers{0, 1}, Numbers{1}}),
            "rows: row 2, column 'label': expected 2 numbers, one a class, as in the first row, found 1");
  EXPECT_EQ(refusal(column, {Numbers{0, 1}, Numbers{0, 1.5}}),
            "rows: row 2, column 'label': a list of fractions has a number from 0 to 1 for each class, found 1.5");
  EXPECT_EQ(refusal(column, {Numbers{0, 1}, std::monostate()}),
            "rows: row 2, column 'label': expected a list of numbers, one a class, found nothing");
}

TEST(Labels, ListsOfZerosAndOnesMayBeMeantAsColumns) {
  const auto look = [](const std::vector<Ints>& lists) {
    std::vector<Row> rows;
    for (const Ints& list : lists) rows.push_back({list});
    return look_like_indicators(Dataset::from_rows({{"label", kInts}}, rows), 0);
  };
  EXPECT_TRUE(look({{0, 1, 1}, {1, 0, 0}}));
  EXPECT_FALSE(look({{0, 1}, {1, 0}})) << "may be both classes of each row";
  EXPECT_FALSE(look({{0, 1, 1}, {1}}));
  EXPECT_FALSE(look({{0, 2, 2}}));
}

}  // namespace
}  // namespace transom
