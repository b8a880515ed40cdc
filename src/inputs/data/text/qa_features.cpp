// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/text/qa_features.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "base/json/json_errors.h"

namespace transom {
namespace {

using Texts = std::vector<std::string>;
using Starts = std::vector<int64_t>;

bool holds(const Dataset& data, std::string_view name, ColumnType type) {
  const auto column = data.find(name);
  return column && data.columns()[*column].type == type;
}

bool holds_text(const Dataset& data, std::string_view name) { return holds(data, name, ColumnType::kString); }

// Lists of objects: those of a JSON file, or written as JSON into the cells of a CSV file.
bool holds_json(const Dataset& data, std::string_view name) {
  return holds(data, name, ColumnType::kJson) || holds_text(data, name);
}

const std::string* json_of(const Value& value) {
  const auto* list = std::get_if<JsonList>(&value);
  return list ? &list->text : std::get_if<std::string>(&value);
}

struct AnswerLists {
  Texts texts;
  Starts starts;
};

void add_answer(AnswerLists& lists, const Json& text, const Json& start) {
  lists.texts.push_back(text.get<std::string>());
  lists.starts.push_back(start.get<int64_t>());
}

// [{"text", "answer_start"}, ...] or {"text": [...], "answer_start": [...]}
AnswerLists answers_of(const Json& json) {
  AnswerLists lists;
  if (json.is_array()) {
    for (const Json& each : json) add_answer(lists, each.at("text"), each.at("answer_start"));
  } else if (!json.is_null()) {
    const Json &texts = json.at("text"), &starts = json.at("answer_start");
    for (size_t i = 0; i < texts.size(); ++i) add_answer(lists, texts.at(i), starts.at(i));
  }
  return lists;
}

constexpr const char* kShape = "expected answers with text and answer_start";

const std::vector<Column> kFlatColumns = {{"id", ColumnType::kString},
                                          {"question", ColumnType::kString},
                                          {"context", ColumnType::kString},
                                          {"answers.text", ColumnType::kStrings},
                                          {"answers.answer_start", ColumnType::kInts}};

// {"title", "paragraphs": [{"context", "qas": [{"id", "question", "answers"}]}]}
Dataset from_articles(const Dataset& data) {
  const size_t paragraphs = *data.find("paragraphs");
  std::vector<Row> rows;
  for (int64_t i = 0; i < data.size(); ++i) {
    const Row row = data.row(i);
    const std::string* text = json_of(row[paragraphs]);
    if (!text) continue;
    try {
      for (const Json& paragraph : parse_json(*text, data.where(i)))
        for (const Json& question : paragraph.at("qas")) {
          AnswerLists lists = answers_of(question.value("answers", Json()));
          const Json id = question.value("id", Json());
          rows.push_back({id.is_string() ? id.get<std::string>()
                          : id.is_null() ? std::to_string(rows.size())
                                         : id.dump(),
                          question.at("question").get<std::string>(), paragraph.at("context").get<std::string>(),
                          std::move(lists.texts), std::move(lists.starts)});
        }
    } catch (const Json::exception& error) {
      fail("{}, column 'paragraphs': expected SQuAD's paragraphs with context and qas: {}", data.where(i),
           json_reason(error));
    }
  }
  require(!rows.empty(), "{}: expected questions in its paragraphs, found none", data.name());
  return Dataset::from_rows(kFlatColumns, std::move(rows), data.name());
}

Dataset with_answer_lists(const Dataset& data, const std::string& name) {
  const size_t answers = *data.find(name);
  std::vector<Column> columns = data.columns();
  columns[answers] = {name + ".text", ColumnType::kStrings};
  columns.push_back({name + ".answer_start", ColumnType::kInts});
  std::vector<Row> rows;
  for (int64_t i = 0; i < data.size(); ++i) {
    Row row = data.row(i);
    AnswerLists lists;
    if (const std::string* text = json_of(row[answers]); text && !text->empty()) {
      try {
        lists = answers_of(parse_json(*text, data.where(i)));
      } catch (const Json::exception& error) {
        fail("{}, column '{}': {}: {}", data.where(i), name, kShape, json_reason(error));
      }
    }
    row[answers] = std::move(lists.texts);
    row.emplace_back(std::move(lists.starts));
    rows.push_back(std::move(row));
  }
  return Dataset::from_rows(std::move(columns), std::move(rows), data.name());
}

// Of a CSV file these columns are text, whatever they look like.
Dataset as_written(Dataset data, const QuestionColumns& names) {
  if (data.is_untyped())
    for (const std::string& name : {std::string("id"), names.question, names.context, names.answers + ".text"})
      if (const auto column = data.find(name)) data = data.with_text(*column);
  return data;
}

Dataset flat(const Dataset& given, const QuestionColumns& names) {
  const Dataset data = as_written(given, names);
  if (holds_json(data, "paragraphs")) return from_articles(data);
  if (holds_json(data, names.answers)) return with_answer_lists(data, names.answers);
  return data;
}

// One text or several.
Texts texts_of(const Value& value) {
  if (const auto* texts = std::get_if<Texts>(&value)) return *texts;
  if (const auto* text = std::get_if<std::string>(&value)) return {*text};
  return {};
}

Starts starts_of(const Value& value) {
  if (const auto* starts = std::get_if<Starts>(&value)) return *starts;
  if (const auto* start = std::get_if<int64_t>(&value)) return {*start};
  return {};
}

}  // namespace

Questions::Questions(const Dataset& data, const QuestionColumns& names) : data_(flat(data, names)) {
  const AnswerColumns columns = answer_columns(data_, holds_json(data, "paragraphs") ? QuestionColumns() : names);
  question_ = columns.question, context_ = columns.context, id_ = columns.id;
  if (columns.answer_text && columns.answer_start)
    answer_text_ = columns.answer_text, answer_start_ = columns.answer_start;
}

Questions Questions::first(int64_t rows) const {
  Questions result = *this;
  result.data_ = data_.first(rows);
  return result;
}

bool Questions::fits(const Dataset& data, const QuestionColumns& names) {
  return holds_json(data, "paragraphs") || (holds_text(data, names.question) && holds_text(data, names.context));
}

Question Questions::operator[](int64_t row) const {
  Row values = data_.row(row);
  const auto text = [&](size_t column) { return text_of(data_, row, values, column); };
  Question question{.question = text(question_), .context = text(context_)};
  question.id = id_ ? label_name(values[*id_]) : std::to_string(row);
  if (!answer_text_) return question;
  question.answers = texts_of(values[*answer_text_]);
  const Starts starts = starts_of(values[*answer_start_]);
  require(starts.size() == question.answers.size(), "{}: {} for each, found {} texts and {} starts", where(row), kShape,
          question.answers.size(), starts.size());
  if (!starts.empty()) question.first = TextRange{starts[0], starts[0] + count_characters(question.answers[0])};
  return question;
}

}  // namespace transom
