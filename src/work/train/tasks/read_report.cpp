// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/read_report.h"

#include "base/error.h"

namespace transom {

std::string column_part(std::string_view what, const Dataset& data, size_t column) {
  return fmt::format("{}: column {}", what, data.columns()[column].name);
}

void expect_same_column(const Dataset& first, size_t column, const Dataset& other, size_t own,
                        std::string_view argument) {
  const std::string &wanted = first.columns()[column].name, &found = other.columns()[own].name;
  if (wanted != found)
    fail("{}: the text is column {} here and {} in {}; name it with {}", other.name(), quoted(found), quoted(wanted),
         first.name(), argument);
}

std::string columns_part(const Dataset& data, const std::vector<size_t>& columns, bool joined) {
  if (columns.size() == 1) return column_part("text", data, columns[0]);
  std::vector<std::string> names;
  for (const size_t column : columns) names.push_back(data.columns()[column].name);
  return fmt::format("text: columns {}, {}", fmt::join(names, " and "), joined ? "joined" : "as a pair");
}

std::string classes_text(const Labels& labels) {
  const std::string all = counted(labels.names().size(), "class");
  return labels.found() < labels.names().size() ? fmt::format("{} of {}", labels.found(), all) : all;
}

std::string label_part(const Dataset& data, size_t column, const Labels& labels) {
  const std::string& name = data.columns()[column].name;
  std::string text = name == "label" || name == "labels" ? "label: " : fmt::format("label: column {}, ", name);
  if (labels.kind() == LabelKind::kRegression) return text + "a number";
  text += classes_text(labels);
  return labels.kind() == LabelKind::kClasses ? text : text + ", several at once";
}

std::string what_is_read(const std::vector<std::string>& parts,
                         const std::vector<std::pair<int64_t, std::string>>& rows) {
  std::vector<std::string> counts;
  for (const auto& [count, use] : rows) {
    std::string text = counts.empty() ? counted(static_cast<size_t>(count), "row") : std::to_string(count);
    counts.push_back(rows.size() > 1 ? text + " " + use : text);
  }
  return fmt::format("{}; {}", fmt::join(parts, "; "), fmt::join(counts, ", "));
}

std::string what_is_read(const std::vector<std::string>& parts, const TaskFiles& files) {
  std::vector<std::pair<int64_t, std::string>> rows;
  if (files.train) rows.emplace_back(files.train->size(), "to train on");
  if (files.validation) rows.emplace_back(files.validation->size(), "to evaluate");
  if (files.test) rows.emplace_back(files.test->size(), "to predict");
  return what_is_read(parts, rows);
}

}  // namespace transom
