// SPDX-License-Identifier: Apache-2.0
// CSV as RFC 4180 has it, read as tolerantly as pandas does: a quote inside of an unquoted field is a quote, blank
// lines are skipped, missing fields at the end of a row are empty. Refuses rows with more fields than columns.
#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "inputs/data/columns.h"
#include "inputs/data/tables/row_format.h"

namespace transom {
namespace {

class CsvFormat : public RowFormat {
 public:
  CsvFormat(std::string name, std::string_view text, const DatasetOptions& options, bool tabs)
      : name_(std::move(name)),
        text_(text),
        delimiter_(options.delimiter.value_or(tabs ? '\t' : ',')),
        quotes_(options.quotes),
        names_(options.column_names) {
    start_ = skip_byte_order_mark(name_, text_);
    if (names_.empty()) read_header();
  }

  size_t start() const override { return start_; }
  std::vector<std::string> columns() const override { return names_; }
  bool untyped() const override { return true; }

  bool read(size_t& position, int64_t number, std::vector<std::string>&, Row& row) const override {
    row.clear();
    skip_blank_lines(position);
    if (position >= text_.size()) return false;
    const size_t begin = position;
    std::string field;
    while (true) {
      const bool more = read_field(position, number, row.size(), field);
      if (row.size() == names_.size())
        fail("{}: row {}: expected {} fields ({}), found more: {}{}", name_, number, names_.size(),
             fmt::join(names_, ", "), transom::quoted(field), names_.size() == 1 ? delimiter_hint(names_[0]) : "");
      if (field.empty()) row.emplace_back();
      else row.emplace_back(std::move(field));
      if (!more) break;
    }
    row.resize(names_.size());
    check_utf8(text_.substr(begin, position - begin), name_, number);
    return true;
  }

 private:
  void skip_blank_lines(size_t& position) const {
    while (position < text_.size() && (text_[position] == '\n' || text_[position] == '\r')) ++position;
  }

  // Reads one field and what ends it; false when that is the end of the row.
  bool read_field(size_t& position, int64_t row, size_t column, std::string& field) const {
    field.clear();
    if (quotes_ && position < text_.size() && text_[position] == '"') {
      for (++position;; ++position) {
        const size_t quote = text_.find('"', position);
        if (quote == text_.npos)
          fail("{}: row {}{}: expected a closing quote, found the end of the file", name_, row,
               column < names_.size() ? fmt::format(", column '{}'", names_[column]) : std::string());
        field += text_.substr(position, quote - position);
        position = quote + 1;
        if (position >= text_.size() || text_[position] != '"') break;
        field += '"';  // two quotes are one
      }
    }
    const char ends[] = {delimiter_, '\n', '\r'};
    const size_t end = std::min(text_.find_first_of(std::string_view(ends, 3), position), text_.size());
    field += text_.substr(position, end - position);
    position = end;
    if (position >= text_.size()) return false;
    if (text_[position] == delimiter_) {
      ++position;
      return true;
    }
    position += text_.substr(position, 2) == "\r\n" ? 2 : 1;
    return false;
  }

  void read_header() {
    skip_blank_lines(start_);
    require(start_ < text_.size(), "{}: expected a line with the names of the columns, found an empty file", name_);
    const size_t begin = start_;
    std::string field;
    std::set<std::string> taken;
    std::unordered_map<std::string, int> repeated;  // and how often
    for (bool more = true; more;) {
      more = read_field(start_, 0, 0, field);
      require(field.find('\0') == field.npos, "{}: expected a line with the names of the columns, found {}", name_,
              transom::quoted(field, 40));
      if (field.empty()) field = fmt::format("Unnamed: {}", names_.size());
      std::string unique = field;  // pandas names the second of two equal names "name.1"
      while (!taken.insert(unique).second) unique = fmt::format("{}.{}", field, ++repeated[field]);
      check_column_count(names_.size() + 1, name_);
      names_.push_back(std::move(unique));
    }
    check_utf8(text_.substr(begin, start_ - begin), name_, 0);
  }

  std::string name_;
  std::string_view text_;
  char delimiter_;
  bool quotes_;
  std::vector<std::string> names_;
  size_t start_ = 0;
};

}  // namespace

std::unique_ptr<RowFormat> csv_format(std::string name, std::string_view text, const DatasetOptions& options,
                                      bool tabs) {
  return std::make_unique<CsvFormat>(std::move(name), text, options, tabs);
}

}  // namespace transom
