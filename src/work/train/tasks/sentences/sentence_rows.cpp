// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/sentences/sentence_rows.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "base/text/counted.h"
#include "inputs/data/columns.h"

namespace transom {
namespace {

constexpr std::string_view kLabelColumns[] = {"label", "labels", "score", "scores"};

std::string label_form(const RowForm& form) {
  switch (form.labels) {
    case SentenceLabels::kScore:
      return "a number";
    case SentenceLabels::kBinary:
    case SentenceLabels::kMaybeBinary:
      return "0 or 1";
    case SentenceLabels::kClass:
      return form.classes > 0 ? fmt::format("a class from 0 to {}", form.classes - 1) : "a class: 0, 1, 2 ...";
    case SentenceLabels::kVector:
      return form.width > 0 ? fmt::format("a vector of {} numbers", form.width) : "a vector";
    case SentenceLabels::kMargins:
      return "a number for each negative, or for the positive and each negative";
    default:
      return "none";
  }
}

// Names that say where a column is expected to be.
void warn_of_order(const Dataset& data, const std::vector<size_t>& texts) {
  constexpr std::pair<std::string_view, size_t> kPlaces[] = {
      {"anchor", 0}, {"positive", 1}, {"negative", 2}, {"question", 0}, {"answer", 1}, {"query", 0}, {"response", 1}};
  for (const auto& [name, place] : kPlaces)
    for (size_t i = 0; i < texts.size(); ++i)
      if (data.columns()[texts[i]].name == name && i != place)
        return log(
            LogLevel::kWarning,
            fmt::format("{}: column {} is text {} of a row, though it is called as if it were text {}: the order "
                        "of the columns says what they are",
                        data.name(), name, i + 1, place + 1));
}

}  // namespace

SentenceRows::SentenceRows(Dataset data, RowForm form) : data_(std::move(data)), form_(std::move(form)) {
  for (const std::string_view name : kLabelColumns)
    if (!label_) label_ = data_.find(name);
  for (size_t i = 0; i < data_.columns().size(); ++i) {
    if (label_ == i) continue;
    texts_.push_back(i);
    data_ = data_.with_text(i);  // refuses what is no text, by its name
  }
  if (texts_.size() < form_.least_columns || texts_.size() > form_.most_columns)
    fail("{}: {} takes {} of texts, found {} ({})", data_.name(), form_.loss,
         form_.least_columns == form_.most_columns
             ? counted(static_cast<int64_t>(form_.least_columns), "column")
             : fmt::format("{} to {} columns", form_.least_columns, form_.most_columns),
         texts_.size(), fmt::join(column_names(data_), ", "));
  const bool takes = form_.labels != SentenceLabels::kNone, may = form_.labels == SentenceLabels::kMaybeBinary;
  const bool needs = takes && !(may && texts_.size() > 2);
  if (needs && !label_)
    fail("{}: {} needs a column label or score with {}, found {}", data_.name(), form_.loss, label_form(form_),
         fmt::join(column_names(data_), ", "));
  if (!takes && label_)
    log(LogLevel::kWarning, fmt::format("{}: column {} is left out: {} learns from texts alone", data_.name(),
                                        data_.columns()[*label_].name, form_.loss));
  if (!takes) label_.reset();
  warn_of_order(data_, texts_);
}

std::string SentenceRows::reads() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < texts_.size(); ++i) names.push_back(column_name(i));
  return fmt::format("texts: {}{}", fmt::join(names, ", "),
                     label_ ? fmt::format("; label: {}", data_.columns()[*label_].name) : "");
}

std::vector<float> SentenceRows::label_of(const Row& row, const std::string& where) const {
  const Value& value = row[*label_];
  const auto refuse = [&](const std::string& found) {
    fail("{}: column {}: {} takes {}, found {}", where, data_.columns()[*label_].name, form_.loss, label_form(form_),
         found);
  };
  std::vector<double> numbers;
  if (const auto* whole = std::get_if<int64_t>(&value)) numbers = {static_cast<double>(*whole)};
  else if (const auto* number = std::get_if<double>(&value)) numbers = {*number};
  else if (const auto* flag = std::get_if<bool>(&value)) numbers = {*flag ? 1.0 : 0.0};
  else if (const auto* list = std::get_if<std::vector<double>>(&value)) numbers = *list;
  else if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) numbers.assign(ints->begin(), ints->end());
  else if (const auto* text = std::get_if<std::string>(&value)) refuse(quoted(*text));
  else refuse("nothing");
  const size_t count = numbers.size(), negatives = texts_.size() > 2 ? texts_.size() - 2 : 0;
  const bool single = form_.labels != SentenceLabels::kVector && form_.labels != SentenceLabels::kMargins;
  if (single ? count != 1
      : form_.labels == SentenceLabels::kMargins
          ? count != negatives && count != negatives + 1
          : count == 0 || (form_.width > 0 && count != static_cast<size_t>(form_.width)))
    refuse(counted(static_cast<int64_t>(count), "number"));
  for (const double each : numbers) {
    const bool binary = form_.labels == SentenceLabels::kBinary || form_.labels == SentenceLabels::kMaybeBinary;
    const bool is_class = each >= 0 && each == std::floor(each) && each < 1e9 &&
                          (form_.classes == 0 || each < static_cast<double>(form_.classes));
    if (!std::isfinite(each) || (form_.labels == SentenceLabels::kBinary && each != 0 && each != 1) ||
        (binary && texts_.size() > 2 && each != 0 && each != 1) ||
        (form_.labels == SentenceLabels::kClass && !is_class))
      refuse(fmt::format("{}", each));
  }
  return {numbers.begin(), numbers.end()};
}

SentenceRows::SentenceRow SentenceRows::row(int64_t index) const {
  const Row values = data_.row(index);
  const std::string where = data_.where(index);
  SentenceRow result;
  for (const size_t column : texts_) result.texts.push_back(text_of(data_, index, values, column));
  for (size_t i = 2; i < result.texts.size(); ++i)
    if (result.texts[i] == result.texts[1])
      fail("{}: expected a negative that is not the positive, found {} in columns {} and {}", where,
           quoted(result.texts[1]), column_name(1), column_name(i));
  if (label_) result.labels = label_of(values, where);
  return result;
}

}  // namespace transom
