// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/column_types.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace transom {
namespace {

// The words that pandas takes for nothing. In a column that stays text they are text: "None" is a fine label.
constexpr std::array<std::string_view, 17> kEmptyWords = {"#N/A", "#N/A N/A", "#NA",     "-1.#IND", "-1.#QNAN", "-NaN",
                                                          "-nan", "1.#IND",   "1.#QNAN", "<NA>",    "N/A",      "NA",
                                                          "NULL", "NaN",      "None",    "n/a",     "nan"};

bool is_empty_word(std::string_view text) {
  return text == "null" || std::find(kEmptyWords.begin(), kEmptyWords.end(), text) != kEmptyWords.end();
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == text.npos) return {};
  text = text.substr(begin, text.find_last_not_of(' ') - begin + 1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return text;
}

template <typename Number>
bool parse(std::string_view text, Number& number) {
  text = trimmed(text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool is_whole(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

bool parse_truth(std::string_view text, bool& truth) {
  truth = text == "True" || text == "true" || text == "TRUE";
  return truth || text == "False" || text == "false" || text == "FALSE";
}

ColumnType type_of(const Value& value) { return static_cast<ColumnType>(value.index()); }

bool is_empty_list(const Value& value) {
  const auto* list = std::get_if<std::vector<int64_t>>(&value);
  return list && list->empty();
}

}  // namespace

std::string_view column_type_name(ColumnType type) {
  constexpr std::array<std::string_view, 9> kNames = {"nothing",
                                                      "true or false",
                                                      "a whole number",
                                                      "a number",
                                                      "text",
                                                      "a list of whole numbers",
                                                      "a list of numbers",
                                                      "a list of texts",
                                                      "a list of lists, objects or several types"};
  return kNames[static_cast<size_t>(type)];
}

void ColumnTypeFinder::add_text(const std::string& text) {
  int64_t whole = 0;
  double number = 0;
  bool truth = false;
  if (is_empty_word(text)) {
    has_empty_ = true;
    return;
  }
  may_be_bool_ = may_be_bool_ && parse_truth(text, truth);
  may_be_int_ = may_be_int_ && parse(text, whole);
  // A whole number beyond 64 bits is an identifier rather than a fraction.
  if (may_be_float_) may_be_float_ = is_whole(text) ? parse(text, whole) : parse(text, number);
  type_ = ColumnType::kString;
}

void ColumnTypeFinder::add(const Value& value, const std::string& where) {
  using enum ColumnType;
  const ColumnType type = type_of(value);
  if (type == kNull) {
    has_empty_ = true;
  } else if (untyped_ && type == kString) {
    add_text(std::get<std::string>(value));
  } else if (type == type_ || type_ == kNull) {
    type_ = type;
  } else if ((type == kInt && type_ == kFloat) || (type == kFloat && type_ == kInt)) {
    type_ = kFloat;
  } else if ((type == kInts && type_ == kFloats) || (type == kFloats && type_ == kInts)) {
    type_ = kFloats;
  } else if (is_empty_list(value) && (type_ == kFloats || type_ == kStrings || type_ == kJson)) {
    // An empty list is a list of anything.
  } else if ((type == kStrings || type == kJson) && type_ == kInts) {
    type_ = type;  // settled when values are brought to the type: only empty lists go through
  } else {
    fail("{}: expected {} as in the rows before, found {}", where, column_type_name(type_), column_type_name(type));
  }
}

ColumnType ColumnTypeFinder::type() const {
  using enum ColumnType;
  if (!untyped_ || type_ != kString) return type_;
  if (may_be_bool_) return kBool;
  if (may_be_int_) return has_empty_ ? kFloat : kInt;
  return may_be_float_ ? kFloat : kString;
}

bool ColumnTypeFinder::whole_numbers() const {
  return untyped_ && type_ == ColumnType::kString && may_be_int_ && !may_be_bool_ && has_empty_;
}

Value to_column_type(Value value, ColumnType type) {
  using enum ColumnType;
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  if (type_of(value) == type) return value;
  if (const auto* text = std::get_if<std::string>(&value)) {  // CSV
    int64_t whole = 0;
    double number = kNaN;
    bool truth = false;
    if (type == kBool && parse_truth(*text, truth)) return truth;
    if (type == kInt && parse(*text, whole)) return whole;
    if (type == kFloat) return parse(*text, number) && !is_empty_word(*text) ? number : kNaN;
    return {};
  }
  if (type == kFloat)
    return std::holds_alternative<int64_t>(value) ? static_cast<double>(std::get<int64_t>(value)) : kNaN;
  if (const auto* whole = std::get_if<std::vector<int64_t>>(&value)) {
    if (type == kFloats) return std::vector<double>(whole->begin(), whole->end());
    require((type != kStrings && type != kJson) || whole->empty(), "expected {}, found {}", column_type_name(type),
            column_type_name(kInts));
    if (type == kStrings) return std::vector<std::string>();
    if (type == kJson) return JsonList{"[]"};
  }
  return {};
}

}  // namespace transom
