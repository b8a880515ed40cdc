// SPDX-License-Identifier: Apache-2.0
#include "transom/dataset.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/error.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace transom {
namespace {

using Strings = std::vector<std::string>;
using Ints = std::vector<int64_t>;
using Columns = std::vector<Column>;
using enum ColumnType;

class DatasetTest : public ::testing::Test {
 protected:
  Dataset load(const std::string& name, std::string_view text, const DatasetOptions& options = {}) {
    return Dataset::load(folder_.write(name, text), options);
  }
  std::string refusal(const std::string& name, std::string_view text, const DatasetOptions& options = {}) {
    return test::message_without_folders([&] { load(name, text, options); });
  }
  test::TemporaryFolder folder_;
};

TEST_F(DatasetTest, CsvHasQuotesNewlinesAndTypes) {
  const Dataset data = load("a.csv",
                            "\xEF\xBB\xBFtext,label,score,flag,gaps\r\n"
                            "\"one, \"\"two\"\"\nthree\",1,0.5,True,1\r\n"
                            "plain \"quote\",-2,1e3,False,\r\n"
                            "\r\n"
                            "None,+3,7,True,3");
  EXPECT_EQ(data.columns(),
            (Columns{{"text", kString}, {"label", kInt}, {"score", kFloat}, {"flag", kBool}, {"gaps", kFloat, true}}));
  ASSERT_EQ(data.size(), 3);
  EXPECT_EQ(data.row(0), (Row{"one, \"two\"\nthree", int64_t{1}, 0.5, true, 1.0}));
  EXPECT_EQ(data.row(1)[0], Value("plain \"quote\""));
  EXPECT_TRUE(std::isnan(std::get<double>(data.row(1)[4])));
  EXPECT_EQ(data.row(2)[0], Value("None"));
  EXPECT_EQ(data.row(2)[1], Value(int64_t{3}));
  EXPECT_THROW(data.row(3), Error);
  EXPECT_THROW(data.row(-1), Error);
}

TEST_F(DatasetTest, CsvColumns) {
  EXPECT_EQ(load("a.csv", "a,a,\n1,2,3\n").columns(), (Columns{{"a", kInt}, {"a.1", kInt}, {"Unnamed: 2", kInt}}));
  DatasetOptions options;
  options.column_names = {"sentence", "label"};
  const Dataset data = load("a.tsv", "a \"film\n", options = {.quotes = false, .column_names = {"sentence", "label"}});
  EXPECT_EQ(data.row(0), (Row{"a \"film", std::monostate()}));
  options = {.delimiter = ';'};
  EXPECT_EQ(load("b.csv", "a;b\n1;x,y\n", options).row(0), (Row{int64_t{1}, "x,y"}));
  EXPECT_EQ(load("c.csv", "a\n99999999999999999999\n").columns()[0].type, kString);
}

TEST_F(DatasetTest, CsvRefusalsNameFileRowAndColumn) {
  EXPECT_EQ(refusal("a.csv", "a,b\n1,2\n1,2,3\n"), "a.csv: row 2: expected 2 fields (a, b), found more: '3'");
  EXPECT_EQ(refusal("a.csv", "a,b\n1,\"x\n"),
            "a.csv: row 1, column 'b': expected a closing quote, found the end of the file");
  EXPECT_EQ(refusal("a.csv", "a\nx\xFF\n").substr(0, 34), "a.csv: row 1: expected UTF-8, foun");
  EXPECT_EQ(refusal("a.csv", ""), "a.csv: expected a line with the names of the columns, found an empty file");
  EXPECT_EQ(refusal("a.csv", "a,b\n"), "a.csv: expected rows, found none");
  EXPECT_EQ(refusal("a.csv",
                    "\xFF\xFE"
                    "a"),
            "a.csv: expected UTF-8, found UTF-16; `iconv -f utf-16 -t utf-8` makes it");
  EXPECT_EQ(refusal("a.xls", "a"),
            "a.xls: expected a file that ends in .csv, .tsv, .json, .jsonl, .conll or .txt; for another ending give "
            "--file_format csv, tsv, json, conll or text");
  EXPECT_EQ(refusal("a.jsonl.gz", "a"), "a.jsonl.gz: is compressed: unpack it first");
  EXPECT_NE(refusal("a.parquet", "a").find("write it as JSON lines"), std::string::npos);
}

TEST_F(DatasetTest, JsonLinesAndArrays) {
  const Columns columns = {
      {"input_ids", kInts}, {"labels", kInt}, {"answers.text", kStrings}, {"w", kFloats}, {"odd", kJson}};
  const std::string one = R"({"input_ids": [1, 2], "labels": 3, "answers": {"text": []}, "w": [1, 0.5], "odd": [[1]]})";
  const std::string two = R"({"labels": null, "input_ids": [], "answers": {"text": ["a\u00e9"]}, "w": [2]})";
  for (const std::string& text : {one + "\n" + two + "\n", "[" + one + ",\n " + two + "]\n",
                                  R"({"version": "1", "data": [)" + one + ", " + two + "]}"}) {
    const Dataset data = load("a.json", text);
    EXPECT_EQ(data.columns(), columns) << text;
    ASSERT_EQ(data.size(), 2);
    EXPECT_EQ(data.row(0), (Row{Ints{1, 2}, int64_t{3}, Strings{}, std::vector<double>{1, 0.5}, JsonList{"[[1]]"}}));
    EXPECT_EQ(data.row(1),
              (Row{Ints{}, std::monostate(), Strings{"a\u00e9"}, std::vector<double>{2}, std::monostate()}));
  }
}

// Of every kind of cell: what looks like numbers, truth values or nothing is text all the same where text is asked for.
TEST_F(DatasetTest, TextOfCsvIsWhatIsWritten) {
  const Strings cells = {"007",  "1.50", "1e5",  "+5",   ".5",    "NA",    "N/A",   "null",
                         "None", "nan",  "#N/A", "True", "false", " 7 ",   "-0",    "99999999999999999999",
                         "x",    "",     "inf",  "[1]",  "0x1F",  "1_000", "\u0661"};
  std::mt19937 random(5);
  for (int file = 0; file < 200; ++file) {
    Strings written;
    std::string text = "n,text,label\n";
    for (int row = 0; row < 3; ++row) {
      written.push_back(cells[random() % cells.size()]);
      const bool quoted = random() % 2 == 0;
      text += fmt::format("{},{}{}{},a\n", row, quoted ? "\"" : "", written.back(), quoted ? "\"" : "");
    }
    for (const uint64_t limit : {uint64_t{0}, uint64_t{1000}}) {
      const Dataset data = load("a.csv", text, {.memory_limit = limit}).with_text(1).select({2, 0, 1});
      EXPECT_EQ(data.columns()[1].type, kString);
      for (const int64_t row : {2, 0, 1})
        EXPECT_EQ(data.row(row == 2 ? 0 : row + 1)[1], Value(written[static_cast<size_t>(row)])) << text;
      EXPECT_EQ(data.row(0)[0], Value(int64_t{2}));
    }
  }
}

TEST_F(DatasetTest, WhatIsNoTextOfJsonIsRefused) {
  const std::string row =
      R"({"text": "a", "n": 1, "r": 0.5, "b": true, "l": ["a"], "i": [1], "o": [{"a": 1}], "z": null})";
  const Dataset data = load("a.jsonl", row);
  const auto message = [&](size_t column) { return test::message_without_folders([&] { data.with_text(column); }); };
  EXPECT_EQ(message(0), "");
  const Strings types = {"a whole number",
                         "a number",
                         "true or false",
                         "a list of texts",
                         "a list of whole numbers",
                         "a list of lists, objects or several types",
                         "nothing"};
  for (size_t i = 0; i < types.size(); ++i)
    EXPECT_EQ(message(i + 1), fmt::format("a.jsonl: row 1, column '{}': expected text, found {}",
                                          data.columns()[i + 1].name, types[i]));
}

TEST_F(DatasetTest, JsonRefusals) {
  EXPECT_EQ(refusal("a.jsonl", "{\"a\": 1}\n{\"a\": \"x\"}\n"),
            "a.jsonl: row 2, column 'a': expected a whole number as in the rows before, found text");
  EXPECT_EQ(refusal("a.jsonl", "{\"a\": [1]}\n{\"a\": [\"x\"]}\n"),
            "a.jsonl: row 1, column 'a': expected a list of texts, found a list of whole numbers");
  EXPECT_EQ(refusal("a.jsonl", "{\"a\": 1}\n[]\n"), "a.jsonl: row 2: expected an object, found '[]\\n'");
  EXPECT_EQ(refusal("a.jsonl", "{\"a\": \"x"),
            "a.jsonl: row 1: expected the end of the object or of a string in it, found the end of the file: a '}' or "
            "'\"' is missing in this row");
  EXPECT_EQ(refusal("a.json", "[{\"a\": 1},]"), "a.json: row 1: expected ',' and a further object, or ']', found ']'");
  EXPECT_EQ(refusal("a.json", "[{\"a\": 1}"),
            "a.json: row 1: expected ',' and a further object, or ']', found the end of the file");
  EXPECT_EQ(refusal("a.json", "[] x"), "a.json: row 1: expected the end of the file after ']', found 'x'");
  EXPECT_TRUE(refusal("a.jsonl", "{\"a\": 1x}").starts_with("a.jsonl: row 1: is not valid JSON: "));
  std::string deep;
  for (int i = 0; i < 30; ++i) deep += "{\"a\":";
  EXPECT_EQ(refusal("a.jsonl", deep + "1" + std::string(30, '}')), "a.jsonl: row 1: is nested deeper than 16 objects");
}

TEST_F(DatasetTest, Conll) {
  const Dataset data = load("a.conll", "-DOCSTART-\tO\n\nEmpire\tB-loc\nState\tI-loc\r\n \t\nIt\tO\n\n\xEF\xBB\xBF");
  EXPECT_EQ(data.columns(), (Columns{{"tokens", kStrings}, {"ner_tags", kStrings}}));
  ASSERT_EQ(data.size(), 2);
  EXPECT_EQ(data.row(0), (Row{Strings{"Empire", "State"}, Strings{"B-loc", "I-loc"}}));
  EXPECT_EQ(data.row(1), (Row{Strings{"It"}, Strings{"O"}}));
  EXPECT_EQ(load("b.conll", "EU NNP B-NP B-ORG\n").columns()[3].name, "ner_tags");
  EXPECT_EQ(refusal("c.conll", "a O\n\nb\n"),
            "c.conll: row 2, line 3: expected 2 columns (tokens, ner_tags), found 1: 'b'");
}

TEST_F(DatasetTest, Lines) {
  const Dataset data = load("a.txt", "one\r\n\ntwo");
  ASSERT_EQ(data.size(), 3);
  EXPECT_EQ(data.row(1)[0], Value(std::string()));
  EXPECT_EQ(data.row(2)[0], Value("two"));
}

TEST_F(DatasetTest, RowsOfLargeFilesAreReadAgain) {
  DatasetOptions small;
  small.memory_limit = 0;
  const std::string csv = "t,n\n\"a\nb\",1\nc,\n";
  const std::string json = "[{\"a\": 1}, {\"b\": [\"x\"], \"a\": 2.5}]";
  for (const auto& [name, text] :
       {std::pair{"a.csv", csv}, {"b.json", json}, {"c.conll", std::string("a O\n\nb O\n")}}) {
    const Dataset held = load(name, text), mapped = load(name, text, small);
    ASSERT_EQ(held.columns(), mapped.columns());
    ASSERT_EQ(held.size(), 2);
    ASSERT_EQ(mapped.size(), 2);
    for (const int64_t i : {1, 0})
      for (size_t c = 0; c < held.columns().size(); ++c) {
        const Value a = held.row(i)[c], b = mapped.row(i)[c];
        EXPECT_TRUE(a == b || (std::isnan(std::get<double>(a)) && std::isnan(std::get<double>(b))));
      }
  }
}

TEST_F(DatasetTest, SelectionsOfSelections) {
  const Dataset data = load("a.txt", "0\n1\n2\n3\n").select({3, 1, 2}).select({2, 0});
  EXPECT_EQ(data.size(), 2);
  EXPECT_EQ(data.row(0)[0], Value("2"));
  EXPECT_EQ(data.row(1)[0], Value("3"));
  EXPECT_TRUE(data.where(1).ends_with("a.txt: row 4"));
  EXPECT_EQ(data.first(1).size(), 1);
  EXPECT_EQ(data.first(9).size(), 2);
  EXPECT_THROW(data.select({2}), Error);
}

// Whatever the bytes are, a file loads or an Error says why not; the same whether rows are held or not.
TEST_F(DatasetTest, RandomBytesGiveRowsOrAnError) {
  std::mt19937 random(1);
  const std::string_view alphabets[] = {"a,\"\n\r1.\t-", "{}[]\",:a1 \n\\ntrue.5eu", "aO- \t\n\r",
                                        "\xEF\xBB\xBF\xC3\xA9\xFF,\n\"{"};
  for (int i = 0; i < 500; ++i) {
    const std::string_view alphabet = alphabets[random() % 4];
    std::string text = random() % 3 == 0 ? "[{\"a\": 1}" : "";
    for (size_t n = random() % 40; n > 0; --n) text += alphabet[random() % alphabet.size()];
    for (const char* name : {"a.csv", "a.tsv", "a.json", "a.conll", "a.txt"}) {
      const auto path = folder_.write(name, text);
      DatasetOptions mapped;
      mapped.memory_limit = 0;
      const auto summary = [&](const DatasetOptions& options) {
        const Dataset data = Dataset::load(path, options);
        for (int64_t row = 0; row < data.size(); ++row) EXPECT_EQ(data.row(row).size(), data.columns().size());
        return data.size();
      };
      const auto held = test::message_without_folders([&] { summary({}); });
      if (held.empty()) {
        EXPECT_EQ(test::message_without_folders([&] { summary(mapped); }), held) << text;
      }
    }
  }
}

TEST(Dataset, LinesMayKeepTheirEnds) {
  const test::TemporaryFolder folder;
  const auto path = folder.write("a.txt", "one\r\n\ntwo");
  const auto lines = [&](bool keep) {
    DatasetOptions options;
    options.keep_linebreaks = keep;
    const Dataset data = Dataset::load(path, options);
    std::vector<std::string> result;
    for (int64_t i = 0; i < data.size(); ++i) result.push_back(std::get<std::string>(data.row(i)[0]));
    return result;
  };
  EXPECT_EQ(lines(false), (std::vector<std::string>{"one", "", "two"}));
  EXPECT_EQ(lines(true), (std::vector<std::string>{"one\n", "\n", "two"}));
}

}  // namespace
}  // namespace transom
