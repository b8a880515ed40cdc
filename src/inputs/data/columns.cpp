// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/columns.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "inputs/data/text/conversation_rows.h"
#include "inputs/data/text/text_lists.h"

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
  const auto names = column_names(data);
  return fmt::format("{}{}", fmt::join(names, ", "), names.size() == 1 ? delimiter_hint(names[0]) : "");
}

}  // namespace

size_t need_column(const Dataset& data, std::string_view name, std::string_view argument) {
  if (const auto found = data.find(name)) return *found;
  fail("{}: expected a column {} ({}), found {}{}", data.where(0), transom::quoted(name), argument, found_columns(data),
       did_you_mean(name, column_names(data)));
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

}  // namespace

std::optional<std::pair<std::string, std::string>> glue_keys(std::string_view task) {
  for (const GlueTask& each : kGlueTasks)
    if (each.name == task) return std::pair(std::string(each.first), std::string(each.second));
  return std::nullopt;
}

std::vector<std::string> column_names(const Dataset& data) {
  std::vector<std::string> names;
  for (const Column& column : data.columns()) names.push_back(column.name);
  return names;
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
  expect_lists_of_messages(data);
  if (data.columns().size() == 1 && data.columns()[0].name == "text")
    fail(
        "{}: texts without labels; --task text-generation trains a decoder on them, --task fill-mask an encoder; for "
        "classes there would be a column 'label'",
        data.name());
  fail(
      "{}: expected a column 'label', found {}; name it with --label_column_name, or with --column_names the columns "
      "of a file without a header",
      data.where(0), found_columns(data));
}

namespace {

// The columns that run_glue knows by their names, in the order of the file but for sentence1 and sentence2.
std::optional<std::vector<size_t>> known_pair(const Dataset& data) {
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {"sentence1", "sentence2"}, {"premise", "hypothesis"}, {"question", "sentence"}, {"question1", "question2"}};
  for (const auto& [first, second] : kPairs) {
    const auto one = data.find(first), other = data.find(second);
    if (!one || !other) continue;
    if (first == "sentence1" || *one < *other) return std::vector{*one, *other};
    return std::vector{*other, *one};
  }
  return std::nullopt;
}

// Whether the column has the names of the numbers in column `label` (label_text, as SetFit's files have it): as a text
// it would be the answer.
bool names_labels(const std::string& name, const std::string& label) {
  return name == label + "_text" || name == label + "_name";
}

// The columns that are text. A column of a CSV file whose cells all look like numbers is one where it is called so, or
// where no other can be.
std::vector<size_t> columns_of_text(const Dataset& data, std::optional<size_t> label) {
  std::vector<size_t> texts;
  const auto& columns = data.columns();
  for (size_t i = 0; i < columns.size(); ++i) {
    const bool called_so = data.is_untyped() && (columns[i].name == "text" || columns[i].name == "sentence");
    const bool answers = label && (i == *label || names_labels(columns[i].name, columns[*label].name));
    if (!answers && (columns[i].type == ColumnType::kString || called_so)) texts.push_back(i);
  }
  if (texts.empty() && data.is_untyped() && columns.size() == (label ? 2U : 1U)) texts.push_back(label == 0U ? 1 : 0);
  return texts;
}

}  // namespace

std::string text_of(const Dataset& data, int64_t index, const Row& row, size_t column) {
  if (const auto* text = std::get_if<std::string>(&row[column])) return *text;
  fail("{}, column '{}': expected text, found {}", data.where(index), data.columns()[column].name,
       column_type_name(static_cast<ColumnType>(row[column].index())));
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
  if (const auto pair = known_pair(data)) {
    columns.text = *pair;
    return columns;
  }
  columns.text = columns_of_text(data, columns.label);
  const std::string form = conversation_form(data);
  if (!columns.text.empty() && columns.text.size() <= 2 && (form.empty() || columns.label)) return columns;
  if (!form.empty()) refuse_conversations(data, form, "--text_column_name");
  if (columns.text.empty()) expect_lists_of_messages(data);
  require(!columns.text.empty(), "{}: expected a column of text, found {}", data.where(0), found_columns(data));
  fail(
      "{}: expected one column of text, or the two of a pair, found {}; name the column with --text_column_name, or "
      "call those of a pair sentence1 and sentence2",
      data.where(0), found_columns(data));
}

ClassificationColumns same_columns(const ClassificationColumns& columns, const Dataset& names, const Dataset& data) {
  ClassificationColumns result{.joined = columns.joined};
  for (const size_t column : columns.text)
    result.text.push_back(need_column(data, names.columns()[column].name, "the text of the other files"));
  if (columns.label) result.label = data.find(names.columns()[*columns.label].name);
  return result;
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

Dataset with_token_lists(const Dataset& given, const ScriptArguments& arguments) {
  const TokenColumns found = find_token_columns(given, arguments);
  Dataset data = given;
  if (data.is_untyped())
    for (const size_t column : {found.tokens, found.tags.value_or(found.tokens)}) data = data.with_text(column);
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

QuestionColumns question_columns(const ScriptArguments& arguments) {
  const QuestionColumns usual;
  return {arguments.question_column.value_or(usual.question), arguments.context_column.value_or(usual.context),
          arguments.answer_column.value_or(usual.answers)};
}

AnswerColumns answer_columns(const Dataset& data, const QuestionColumns& names) {
  AnswerColumns columns;
  const auto question = data.find(names.question), context = data.find(names.context);
  require(question && context, "{}: expected the columns {} and {}, found {}", data.where(0), names.question,
          names.context, fmt::join(column_names(data), ", "));
  columns.question = *question, columns.context = *context;
  for (const size_t column : {columns.question, columns.context})
    require(data.columns()[column].type == ColumnType::kString, "{}, column '{}': expected text, found {}",
            data.where(0), data.columns()[column].name, column_type_name(data.columns()[column].type));
  columns.id = data.find("id");
  columns.answer_text = data.find(names.answers + ".text");
  columns.answer_start = data.find(names.answers + ".answer_start");
  // Only what was named must be there: rows without answers can be predicted.
  require(columns.answer_text || names.answers == QuestionColumns().answers,
          "{}: expected the column {} with text and answer_start, found {}", data.where(0), names.answers,
          fmt::join(column_names(data), ", "));
  return columns;
}

ChoiceColumns choice_columns(const Dataset& data) {
  ChoiceColumns columns{.context = need_column(data, "sent1", "the context"),
                        .beginning = need_column(data, "sent2", "the beginning of every ending"),
                        .label = data.find("label")};
  while (const auto ending = data.find(fmt::format("ending{}", columns.endings.size())))
    columns.endings.push_back(*ending);
  require(columns.endings.size() > 1, "{}: expected the columns ending0, ending1 ..., found {}", data.where(0),
          fmt::join(column_names(data), ", "));
  return columns;
}

size_t text_column(const Dataset& data, const ScriptArguments& arguments) {
  if (arguments.text_column_name) return need_column(data, *arguments.text_column_name, "text_column_name");
  if (const auto text = data.find("text")) return *text;
  if (const std::string form = conversation_form(data); !form.empty())
    refuse_conversations(data, form, "--text_column_name");
  const std::vector<size_t> texts = columns_of_text(data, {});
  // Beside lists of texts or of objects the only text may be an identifier.
  const bool lists = std::any_of(data.columns().begin(), data.columns().end(), [](const Column& column) {
    return column.type == ColumnType::kStrings || column.type == ColumnType::kJson;
  });
  if (texts.size() == 1 && !lists) return texts[0];
  fail("{}: expected a column 'text', or one column of text alone, found {}; name it with --text_column_name",
       data.where(0), found_columns(data));
}

bool is_tokenised(const Dataset& data) {
  const auto column = data.find("input_ids");
  return column && data.columns()[*column].type == ColumnType::kInts;
}

}  // namespace transom
