// SPDX-License-Identifier: Apache-2.0
// Data sets: rows with typed columns, read from CSV, TSV, JSON, JSON lines, CoNLL and text files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace transom {

// The types of columns. Nested objects of JSON become columns with dotted names (`answers.text`).
enum class ColumnType { kNull, kBool, kInt, kFloat, kString, kInts, kFloats, kStrings, kJson };
std::string_view column_type_name(ColumnType type);

// A list of lists, of objects or of values of several types, as JSON writes it. It is no text.
struct JsonList {
  std::string text;
  bool operator==(const JsonList&) const = default;
};

// One value of a row; kNull columns and empty fields hold std::monostate.
using Value = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<int64_t>,
                           std::vector<double>, std::vector<std::string>, JsonList>;
using Row = std::vector<Value>;

struct Column {
  std::string name;
  ColumnType type = ColumnType::kNull;
  // Of a kFloat column of a CSV file: all its values are whole numbers, and some are missing (which are NaN).
  bool whole_numbers = false;
  // Of with_text: cells are text, whatever they look like.
  bool as_written = false;
  bool operator==(const Column&) const = default;
};

struct DatasetOptions {
  std::optional<char> delimiter;          // of CSV files; by default a comma, a tab in .tsv
  bool quotes = true;                     // whether " encloses fields of CSV files
  std::vector<std::string> column_names;  // of CSV files that have no header line
  std::string format;                     // csv, tsv, json, conll or text; empty: as the file's name ends
  bool keep_linebreaks = false;           // of text files: lines with their \n
  // Files above this size are not held in memory: their rows are indexed once and read again at each access.
  uint64_t memory_limit = uint64_t{512} << 20;
};

// Rows of one file. A cheap handle; rows may be read from several threads.
class Dataset {
 public:
  // Without DatasetOptions::format the name decides: .csv, .tsv, .json, .jsonl, .conll (.bio, .iob, .iob2), .txt.
  // Reads the file once to find its rows and the types of its columns; errors name the file, the row and the column.
  static Dataset load(const std::filesystem::path& path, const DatasetOptions& options = {});
  // `name` stands for the file in errors.
  static Dataset from_rows(std::vector<Column> columns, std::vector<Row> rows, const std::string& name = "rows");

  int64_t size() const;
  const std::string& name() const;  // of the file
  const std::vector<Column>& columns() const;
  std::optional<size_t> find(std::string_view column) const;
  Row row(int64_t index) const;

  // Whether all rows are held in memory, rather than read again at each access.
  bool in_memory() const;
  // Whether cells are text that may stand for numbers (CSV).
  bool is_untyped() const;

  // The same rows, of which this column is text: that of a CSV file as its cells are written (007, 1.50, NA), empty
  // where nothing stands. Throws, with the column's name, where it is of another type.
  Dataset with_text(size_t column) const;

  // The rows of these numbers, in this order.
  Dataset select(std::vector<int64_t> rows) const;
  Dataset first(int64_t rows) const;

  // The place of a row, for errors: "train.csv: row 12".
  std::string where(int64_t row) const;

  class Rows;  // where rows come from
  explicit Dataset(std::shared_ptr<const Rows> rows) : rows_(std::move(rows)) {}

 private:
  std::shared_ptr<const Rows> rows_;
  std::shared_ptr<const std::vector<int64_t>> selection_;
  std::shared_ptr<const std::vector<Column>> columns_;  // of with_text; null: those of the rows
};

}  // namespace transom
