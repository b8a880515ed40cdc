// SPDX-License-Identifier: Apache-2.0
// JSON objects as rows: one a line (or otherwise one after the other), the elements of an array, or the array `data` of
// one object, as SQuAD has it. Nested objects become columns with dotted names; lists of anything but numbers, truth
// values or strings are kept as JsonList.
#include <simdjson.h>

#include <algorithm>

#include "base/error.h"
#include "inputs/data/tables/row_format.h"

namespace transom {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

constexpr int kMaximumDepth = 16;  // of nested objects that become columns

class JsonFormat : public RowFormat {
 public:
  JsonFormat(std::string name, std::string_view text) : name_(std::move(name)), text_(text) {
    start_ = skip_byte_order_mark(name_, text_);
    skip_space(start_);
    if (start_ < text_.size() && text_[start_] == '[') in_array_ = true, ++start_;
    else find_data();
  }

  size_t start() const override { return start_; }

  bool read(size_t& position, int64_t number, std::vector<std::string>& columns, Row& row) const override {
    skip_space(position);
    if (in_array_ && position < text_.size() && text_[position] == ']') {
      size_t rest = position + 1;
      skip_space(rest);
      require(wrapped_ || rest == text_.size(), "{}: row {}: expected the end of the file after ']', found {}", name_,
              number, transom::quoted(text_.substr(rest), 20));
      return false;
    }
    if (position >= text_.size()) {
      require(!in_array_, "{}: row {}: expected ']', found the end of the file", name_, number);
      return false;
    }
    require(text_[position] == '{', "{}: row {}: expected an object, found {}", name_, number,
            transom::quoted(text_.substr(position), 20));
    const size_t begin = position;
    skip_object(position, number);
    row.assign(columns.size(), std::monostate());
    parse(text_.substr(begin, position - begin), number, columns, row);
    if (in_array_) skip_comma(position, number);
    return true;
  }

 private:
  void skip_space(size_t& position) const {
    while (position < text_.size() &&
           (text_[position] == ' ' || text_[position] == '\n' || text_[position] == '\r' || text_[position] == '\t'))
      ++position;
  }

  void skip_comma(size_t& position, int64_t number) const {
    skip_space(position);
    const char next = position < text_.size() ? text_[position] : '\0';
    if (next == ',') {
      skip_space(++position);
      if (position < text_.size() && text_[position] == '{') return;
    } else if (next == ']') {
      return;
    }
    fail("{}: row {}: expected ',' and a further object, or ']', found {}", name_, number,
         position < text_.size() ? transom::quoted(text_.substr(position), 20) : "the end of the file");
  }

  // Moves behind the string that begins at `position`; false where it does not end.
  bool skip_string(size_t& position) const {
    for (++position; position < text_.size(); ++position) {
      if (text_[position] == '\\') ++position;
      else if (text_[position] == '"') return ++position, true;
    }
    return false;
  }

  void skip_object(size_t& position, int64_t number) const {
    int64_t depth = 0;
    while (position < text_.size()) {
      const char c = text_[position];
      if (c == '"') {
        if (!skip_string(position)) break;
        continue;
      }
      depth += (c == '{' || c == '[') - (c == '}' || c == ']');
      ++position;
      if (depth == 0) return;
    }
    fail(
        "{}: row {}: expected the end of the object or of a string in it, found the end of the file: a '}}' or '\"' is "
        "missing in this row",
        name_, number);
  }

  // Finds the array of {"version": ..., "data": [{...}, ...]}.
  void find_data() {
    size_t position = start_;
    if (position >= text_.size() || text_[position] != '{') return;
    ++position;
    while (true) {
      skip_space(position);
      const size_t key = position;
      if (position >= text_.size() || text_[position] != '"' || !skip_string(position)) return;
      const bool is_data = text_.substr(key, position - key) == "\"data\"";
      skip_space(position);
      if (position >= text_.size() || text_[position] != ':') return;
      skip_space(++position);
      if (is_data && position < text_.size() && text_[position] == '[') {
        skip_space(++position);
        if (position < text_.size() && text_[position] == '{') start_ = position, in_array_ = wrapped_ = true;
        return;
      }
      if (position < text_.size() && text_[position] == '"' && !skip_string(position)) return;
      position = text_.find_first_of(",{}[]\n", position);
      if (position == text_.npos || text_[position] != ',') return;
      ++position;
    }
  }

  void parse(std::string_view text, int64_t number, std::vector<std::string>& columns, Row& row) const {
    thread_local simdjson::dom::parser parser;
    element object;
    const auto error = parser.parse(text.data(), text.size()).get(object);
    if (error)
      fail("{}: row {}: is not valid JSON: {}, in {}", name_, number, simdjson::error_message(error),
           transom::quoted(text, 60));
    add_object(object, "", 0, number, columns, row);
  }

  void add_object(element object, const std::string& prefix, int depth, int64_t number,
                  std::vector<std::string>& columns, Row& row) const {
    require(depth < kMaximumDepth, "{}: row {}: is nested deeper than {} objects", name_, number, kMaximumDepth);
    for (const auto [key, value] : simdjson::dom::object(object)) {
      const std::string name = prefix + std::string(key);
      if (value.is_object()) {
        add_object(value, name + ".", depth + 1, number, columns, row);
        continue;
      }
      const auto found = std::find(columns.begin(), columns.end(), name);
      const size_t index = static_cast<size_t>(found - columns.begin());
      if (found == columns.end()) {
        check_column_count(columns.size() + 1, name_);
        columns.push_back(name), row.emplace_back();
      }
      row[index] = value.is_array() ? list(value) : scalar(value);
    }
  }

  static double number(element value) { return value.is_bool() ? static_cast<double>(bool(value)) : double(value); }

  static Value scalar(element value) {
    switch (value.type()) {
      case element_type::BOOL:
        return bool(value);
      case element_type::INT64:
        return int64_t(value);
      case element_type::UINT64:
        return static_cast<double>(uint64_t(value));
      case element_type::DOUBLE:
        return double(value);
      case element_type::STRING:
        return std::string(std::string_view(value));
      default:
        return std::monostate();
    }
  }

  static Value list(element value) {
    const simdjson::dom::array items(value);
    size_t whole = 0, numbers = 0, strings = 0, all = 0;
    for (const element item : items) {
      ++all;
      whole += item.is_int64() || item.is_bool();
      numbers += item.is_number() || item.is_bool();
      strings += item.is_string();
    }
    if (whole == all) {
      std::vector<int64_t> result;
      result.reserve(all);
      for (const element item : items) result.push_back(item.is_bool() ? int64_t{bool(item)} : int64_t(item));
      return result;
    }
    if (numbers == all) {
      std::vector<double> result;
      result.reserve(all);
      for (const element item : items) result.push_back(number(item));
      return result;
    }
    if (strings == all) {
      std::vector<std::string> result;
      result.reserve(all);
      for (const element item : items) result.emplace_back(std::string_view(item));
      return result;
    }
    return JsonList{simdjson::minify(value)};
  }

  std::string name_;
  std::string_view text_;
  size_t start_ = 0;
  bool in_array_ = false;
  bool wrapped_ = false;  // the array is inside of an object, whose end is not read
};

}  // namespace

std::unique_ptr<RowFormat> json_format(std::string name, std::string_view text) {
  return std::make_unique<JsonFormat>(std::move(name), text);
}

}  // namespace transom
