// SPDX-License-Identifier: Apache-2.0
#include "data/columns.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/text/numbers.h"
#include "data/text_lists.h"

namespace transom {
namespace {

struct GlueTask {
  std::string_view name, first, second;
};
constexpr std::array<GlueTask, 9> kGlueTasks = {{{"cola", "sentence", ""},
                                                 {"mnli", "premise", "hypothesis"},
                                                 {"mrpc", "sentence1", "sentence2"},
                                                 {"qnli", "question", "sentence"},
                                                 {"qqp", "question1", "question2"},
                                                 {"rte", "sentence1", "sentence2"},
                                                 {"sst2", "sentence", ""},
                                                 {"stsb", "sentence1", "sentence2"},
                                                 {"wnli", "sentence1", "sentence2"}}};

std::vector<std::string> names_of(const Dataset& data) {
  std::vector<std::string> names;
  for (const Column& column : data.columns()) names.push_back(column.name);
  return names;
}

}  // namespace

std::string delimiter_hint(std::string_view line) {
  for (const auto& [delimiter, word] : {std::pair(';', "';'"), std::pair('\t', "$'\\t'"), std::pair('|', "'|'")})
    if (line.find(delimiter) != line.npos)
      return fmt::format("; if the fields are separated by {}, give --delimiter {}", delimiter == '\t' ? "tabs" : word,
                         word);
  return "";
}

namespace {

// The columns, for errors; one column whose name holds a separator was not split.
std::string found_columns(const Dataset& data) {
  const auto names = names_of(data);
  return fmt::format("{}{}", fmt::join(names, ", "), names.size() == 1 ? delimiter_hint(names[0]) : "");
}

}  // namespace

size_t need_column(const Dataset& data, std::string_view name, std::string_view argument) {
  if (const auto found = data.find(name)) return *found;
  fail("{}: expected a column {} ({}), found {}{}", data.where(0), transom::quoted(name), argument, found_columns(data),
       did_you_mean(name, names_of(data)));
}

namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(at, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

// Numbers in order of value, other names in order of their bytes.
void sort_names(std::vector<std::string>& names, bool numbers) {
  if (numbers)
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
      return parse_double(a).value_or(0) < parse_double(b).value_or(0);
    });
  else std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

}  // namespace

std::optional<std::pair<std::string, std::string>> glue_keys(std::string_view task) {
  for (const GlueTask& each : kGlueTasks)
    if (each.name == task) return std::pair(std::string(each.first), std::string(each.second));
  return std::nullopt;
}

DatasetOptions dataset_options(const ScriptArguments& arguments) {
  DatasetOptions options;
  if (arguments.delimiter) options.delimiter = arguments.delimiter->at(0);
  for (const std::string& names : arguments.column_names)  // as words, or with commas between
    for (std::string& name : split(names, ',')) options.column_names.push_back(std::move(name));
  options.format = arguments.file_format.value_or("");
  options.keep_linebreaks =
      (arguments.task == "text-generation" || arguments.task == "language-modeling") && arguments.keep_linebreaks;
  return options;
}

size_t need_label(const ClassificationColumns& columns, const Dataset& data) {
  if (columns.label) return *columns.label;
  fail(
      "{}: expected a column 'label', found {}; name it with --label_column_name, or with --column_names the columns "
      "of a file without a header",
      data.where(0), found_columns(data));
}

ClassificationColumns classification_columns(const Dataset& data, const ScriptArguments& arguments) {
  ClassificationColumns columns;
  if (arguments.label_column_name) columns.label = need_column(data, *arguments.label_column_name, "label_column_name");
  else if (const auto label = data.find("label")) columns.label = label;
  else columns.label = data.find("labels");

  if (arguments.text_column_names) {
    columns.joined = true;
    for (const std::string& name : split(*arguments.text_column_names, ','))
      columns.text.push_back(need_column(data, name, "text_column_names"));
    return columns;
  }
  if (arguments.text_column_name) {
    columns.text.push_back(need_column(data, *arguments.text_column_name, "text_column_name"));
    return columns;
  }
  if (const auto keys = arguments.task_name ? glue_keys(*arguments.task_name) : std::nullopt) {
    columns.text.push_back(need_column(data, keys->first, "task_name"));
    if (!keys->second.empty()) columns.text.push_back(need_column(data, keys->second, "task_name"));
    return columns;
  }
  const auto first = data.find("sentence1"), second = data.find("sentence2");
  if (first && second) {
    columns.text = {*first, *second};
    return columns;
  }
  for (size_t i = 0; i < data.columns().size() && columns.text.size() < 2; ++i)
    if (data.columns()[i].type == ColumnType::kString && i != columns.label) columns.text.push_back(i);
  require(!columns.text.empty(), "{}: expected a column of text, found {}", data.where(0), found_columns(data));
  return columns;
}

namespace {

TokenColumns find_token_columns(const Dataset& data, const ScriptArguments& arguments) {
  TokenColumns columns;
  if (arguments.text_column_name) columns.tokens = need_column(data, *arguments.text_column_name, "text_column_name");
  else columns.tokens = data.find("tokens").value_or(0);
  if (arguments.label_column_name) columns.tags = need_column(data, *arguments.label_column_name, "label_column_name");
  else columns.tags = data.find(arguments.task_name.value_or("ner") + "_tags");
  if (!columns.tags) columns.tags = data.find("tags");
  if (!columns.tags && data.columns().size() > 1) columns.tags = columns.tokens == 1 ? 0 : 1;
  return columns;
}

}  // namespace

Dataset with_token_lists(const Dataset& data, const ScriptArguments& arguments) {
  const TokenColumns found = find_token_columns(data, arguments);
  std::vector<Column> columns = data.columns();
  std::vector<size_t> texts;
  for (const size_t column : {found.tokens, found.tags.value_or(found.tokens)})
    if (columns[column].type == ColumnType::kString) {
      texts.push_back(column);
      columns[column].type = ColumnType::kStrings;
    }
  if (texts.empty()) return data;
  std::vector<Row> rows;
  for (int64_t i = 0; i < data.size(); ++i) {
    Row row = data.row(i);
    for (const size_t column : texts) {
      const auto* text = std::get_if<std::string>(&row[column]);
      row[column] = text ? list_of_text(*text, data.where(i)) : std::vector<std::string>();
    }
    rows.push_back(std::move(row));
  }
  return Dataset::from_rows(std::move(columns), std::move(rows), data.name());
}

TokenColumns token_columns(const Dataset& data, const ScriptArguments& arguments) {
  const TokenColumns columns = find_token_columns(data, arguments);
  const Column& tokens = data.columns()[columns.tokens];
  require(tokens.type == ColumnType::kStrings, "{}, column '{}': expected {}, found {}", data.where(0), tokens.name,
          column_type_name(ColumnType::kStrings), column_type_name(tokens.type));
  if (columns.tags) {
    const Column& tags = data.columns()[*columns.tags];
    require(tags.type == ColumnType::kStrings || tags.type == ColumnType::kInts,
            "{}, column '{}': expected a list of tags, found {}", data.where(0), tags.name,
            column_type_name(tags.type));
  }
  return columns;
}

AnswerColumns answer_columns(const Dataset& data) {
  AnswerColumns columns;
  columns.question = data.find("question").value_or(0);
  columns.context = data.find("context").value_or(1);
  require(columns.context < data.columns().size(), "{}: expected the columns question and context, found {}",
          data.where(0), fmt::join(names_of(data), ", "));
  for (const size_t column : {columns.question, columns.context})
    require(data.columns()[column].type == ColumnType::kString, "{}, column '{}': expected text, found {}",
            data.where(0), data.columns()[column].name, column_type_name(data.columns()[column].type));
  columns.id = data.find("id");
  columns.answer_text = data.find("answers.text");
  columns.answer_start = data.find("answers.answer_start");
  return columns;
}

ChoiceColumns choice_columns(const Dataset& data) {
  ChoiceColumns columns{.context = need_column(data, "sent1", "the context"),
                        .beginning = need_column(data, "sent2", "the beginning of every ending"),
                        .label = data.find("label")};
  while (const auto ending = data.find(fmt::format("ending{}", columns.endings.size())))
    columns.endings.push_back(*ending);
  require(columns.endings.size() > 1, "{}: expected the columns ending0, ending1 ..., found {}", data.where(0),
          fmt::join(names_of(data), ", "));
  return columns;
}

size_t text_column(const Dataset& data, const ScriptArguments& arguments) {
  const size_t column = arguments.text_column_name ? need_column(data, *arguments.text_column_name, "text_column_name")
                                                   : data.find("text").value_or(0);
  require(data.columns()[column].type == ColumnType::kString, "{}, column '{}': expected text, found {}", data.where(0),
          data.columns()[column].name, column_type_name(data.columns()[column].type));
  return column;
}

bool is_tokenised(const Dataset& data) {
  const auto column = data.find("input_ids");
  return column && data.columns()[*column].type == ColumnType::kInts;
}

std::string label_name(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "True" : "False";
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  return {};
}

Labels::Labels(LabelKind kind, std::vector<std::string> names) : kind_(kind), names_(std::move(names)) {}

namespace {

bool is_label(const Value& value) {
  const auto* number = std::get_if<double>(&value);
  return !std::holds_alternative<std::monostate>(value) && (!number || std::isfinite(*number));
}

}  // namespace

void require_label(const Value& value, std::string_view where) {
  if (is_label(value)) return;
  const auto* number = std::get_if<double>(&value);
  fail("{}: expected a label, found {}", where, !number ? "nothing" : std::isnan(*number) ? "nothing, or nan" : "inf");
}

Labels Labels::of(const Dataset& data, size_t column, std::optional<bool> regression) {
  const auto& [name, type, whole_numbers] = data.columns()[column];
  const auto where = [&, &name = name](int64_t row) { return fmt::format("{}, column '{}'", data.where(row), name); };
  // Whole numbers stay classes where some are missing, which is an error below rather than a reason for a regression.
  if (regression.value_or(type == ColumnType::kFloat && !whole_numbers)) {
    require(type == ColumnType::kFloat || type == ColumnType::kInt, "{}: expected numbers for regression, found {}",
            where(0), column_type_name(type));
    for (int64_t i = 0; i < data.size(); ++i)
      if (const Value value = std::move(data.row(i)[column]); !is_label(value)) require_label(value, where(i));
    return {LabelKind::kRegression, {}};
  }
  const bool numbers = type == ColumnType::kInt || type == ColumnType::kInts || whole_numbers;
  const bool lists = type == ColumnType::kStrings || type == ColumnType::kInts;
  std::vector<std::string> names;
  for (int64_t i = 0; i < data.size(); ++i) {
    const Value value = std::move(data.row(i)[column]);
    if (const auto* texts = std::get_if<std::vector<std::string>>(&value))
      names.insert(names.end(), texts->begin(), texts->end());
    else if (const auto* ids = std::get_if<std::vector<int64_t>>(&value))
      for (const int64_t id : *ids) names.push_back(std::to_string(id));
    else {
      if (!is_label(value)) require_label(value, where(i));
      names.push_back(label_name(value));
    }
    if (names.size() > 4096) sort_names(names, numbers);
  }
  sort_names(names, numbers);
  return {lists ? LabelKind::kMultiLabel : LabelKind::kClasses, std::move(names)};
}

int64_t Labels::id(const std::string& name, std::string_view where) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end())
    fail("{}: expected one of the labels {}, found {}", where,
         fmt::join(names_.begin(), names_.begin() + std::min<ptrdiff_t>(static_cast<ptrdiff_t>(names_.size()), 20),
                   ", "),
         transom::quoted(name));
  return found - names_.begin();
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
  else fail("{}: expected a list of labels, found {}", where, column_type_name(static_cast<ColumnType>(value.index())));
  return result;
}

std::vector<float> Labels::indicators(const Value& value, std::string_view where) const {
  std::vector<float> result(names_.size());
  for (const int64_t id : ids(value, where)) result[static_cast<size_t>(id)] = 1;
  return result;
}

bool Labels::reorder(const std::vector<std::string>& names) {
  if (!std::is_permutation(names_.begin(), names_.end(), names.begin(), names.end())) return false;
  names_ = names;
  return true;
}

}  // namespace transom
