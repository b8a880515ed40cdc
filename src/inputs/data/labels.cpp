// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/labels.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/text/numbers.h"
#include "inputs/data/class_names.h"

namespace transom {
namespace {

// Numbers in order of value, other names in order of their bytes.
void sort_names(std::vector<std::string>& names, bool numbers) {
  if (numbers)
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
      return parse_double(a).value_or(0) < parse_double(b).value_or(0);
    });
  else std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

bool is_label(const Value& value) {
  if (const auto* number = std::get_if<double>(&value)) return std::isfinite(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return !text->empty();
  return !std::holds_alternative<std::monostate>(value);
}

std::string_view type_name(const Value& value) { return column_type_name(static_cast<ColumnType>(value.index())); }

// Rows of as many numbers from 0 to 1 as the first has.
Labels indicators_of(const Dataset& data, size_t column, const std::function<std::string(int64_t)>& where) {
  size_t width = 0;
  for (int64_t i = 0; i < data.size(); ++i) {
    const Value value = std::move(data.row(i)[column]);
    const auto* numbers = std::get_if<std::vector<double>>(&value);
    if (!numbers || numbers->empty()) fail("{}: expected a list of numbers, one a class, found nothing", where(i));
    if (i == 0) width = numbers->size();
    if (numbers->size() != width)
      fail("{}: expected {} numbers, one a class, as in the first row, found {}", where(i), width, numbers->size());
    for (const double number : *numbers)
      if (!(number >= 0 && number <= 1))
        fail("{}: a list of fractions has a number from 0 to 1 for each class, found {}", where(i), number);
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < width; ++i) names.push_back(std::to_string(i));
  return {LabelKind::kIndicators, std::move(names)};
}

}  // namespace

std::string label_name(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "True" : "False";
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  fail("expected a text or a number, found {}", type_name(value));
}

void require_label(const Value& value, std::string_view where) {
  if (is_label(value)) return;
  const auto* number = std::get_if<double>(&value);
  fail("{}: expected a label, found {}", where, !number ? "nothing" : std::isnan(*number) ? "nothing, or nan" : "inf");
}

Labels::Labels(LabelKind kind, std::vector<std::string> names)
    : kind_(kind), names_(std::move(names)), found_(names_.size()) {
  for (size_t i = 0; i < names_.size(); ++i) ids_.emplace(names_[i], static_cast<int64_t>(i));
}

Labels Labels::of(const Dataset& data, size_t column, std::optional<bool> regression) {
  const Column& found = data.columns()[column];
  const ColumnType type = found.type;
  const auto where = [&](int64_t row) { return fmt::format("{}, column '{}'", data.where(row), found.name); };
  // Whole numbers stay classes where some are missing, which is an error below rather than a reason for a regression.
  if (regression.value_or(type == ColumnType::kFloat && !found.whole_numbers)) {
    require(type == ColumnType::kFloat || type == ColumnType::kInt, "{}: expected numbers for regression, found {}",
            where(0), column_type_name(type));
    for (int64_t i = 0; i < data.size(); ++i)
      if (const Value value = std::move(data.row(i)[column]); !is_label(value)) require_label(value, where(i));
    return {LabelKind::kRegression, {}};
  }
  if (type == ColumnType::kJson)
    fail("{}: expected a label, or a list of labels, found {}", where(0), column_type_name(type));
  if (type == ColumnType::kFloats) return indicators_of(data, column, where);
  const bool numbers = type == ColumnType::kInt || type == ColumnType::kInts || found.whole_numbers;
  const bool lists = type == ColumnType::kStrings || type == ColumnType::kInts;
  std::vector<std::string> names;
  for (int64_t i = 0; i < data.size(); ++i) {
    const Value value = std::move(data.row(i)[column]);
    if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
      for (const std::string& text : *texts)
        if (text.empty()) fail("{}: expected labels, found an empty one", where(i));
      names.insert(names.end(), texts->begin(), texts->end());
    } else if (const auto* ids = std::get_if<std::vector<int64_t>>(&value)) {
      for (const int64_t id : *ids) names.push_back(std::to_string(id));
    } else {
      if (!is_label(value)) require_label(value, where(i));
      names.push_back(label_name(value));
    }
    if (names.size() > 4096) sort_names(names, numbers);
  }
  sort_names(names, numbers);
  return {lists ? LabelKind::kMultiLabel : LabelKind::kClasses, std::move(names)};
}

Labels Labels::as_classes(std::vector<std::string> classes, const std::vector<int64_t>& ids) const {
  Labels result(kind_, std::move(classes));
  result.found_ = found_;
  for (size_t i = 0; i < names_.size(); ++i) result.ids_[names_[i]] = ids.at(i);
  return result;
}

int64_t Labels::id(const std::string& name, std::string_view where) const {
  if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
  fail("{}: expected one of the labels {}, found {}", where, listed_names(names_), transom::quoted(name));
}

int64_t Labels::id(const Value& value, std::string_view where) const {
  require_label(value, where);
  return id(label_name(value), where);
}

std::vector<int64_t> Labels::ids(const Value& value, std::string_view where) const {
  std::vector<int64_t> result;
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value))
    for (const std::string& text : *texts) result.push_back(id(text, where));
  else if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value))
    for (const int64_t number : *numbers) result.push_back(id(std::to_string(number), where));
  else fail("{}: expected a list of labels, found {}", where, type_name(value));
  return result;
}

std::vector<float> Labels::indicators(const Value& value, std::string_view where) const {
  if (const auto* numbers = std::get_if<std::vector<double>>(&value); numbers && kind_ == LabelKind::kIndicators) {
    if (numbers->size() != names_.size())
      fail("{}: expected {} numbers, one a class, found {}", where, names_.size(), numbers->size());
    for (const double number : *numbers)
      if (!(number >= 0 && number <= 1)) fail("{}: expected numbers from 0 to 1, found {}", where, number);
    return {numbers->begin(), numbers->end()};
  }
  std::vector<float> result(names_.size());
  for (const int64_t id : ids(value, where)) result[static_cast<size_t>(id)] = 1;
  return result;
}

bool look_like_indicators(const Dataset& data, size_t column) {
  size_t width = 0;
  bool repeats = false;
  for (int64_t i = 0; i < data.size(); ++i) {
    const Value value = std::move(data.row(i)[column]);
    const auto* numbers = std::get_if<std::vector<int64_t>>(&value);
    if (!numbers || numbers->size() < 2 || (width != 0 && numbers->size() != width)) return false;
    width = numbers->size();
    const auto ones = std::count(numbers->begin(), numbers->end(), 1),
               zeros = std::count(numbers->begin(), numbers->end(), 0);
    if (ones + zeros != static_cast<ptrdiff_t>(width)) return false;
    repeats = repeats || ones > 1 || zeros > 1;
  }
  return repeats;
}

}  // namespace transom
