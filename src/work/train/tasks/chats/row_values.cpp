// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/chats/row_values.h"

#include "base/error.h"
#include "inputs/data/text/conversation_rows.h"

namespace transom {
namespace {

constexpr std::string_view kVariablePrefix = "chat_template_kwargs.";

}  // namespace

Json json_of(const Value& value, const std::string& where) {
  if (const auto* list = std::get_if<JsonList>(&value)) return parse_json(list->text, where);
  return std::visit(
      [](const auto& plain) -> Json {
        using T = std::decay_t<decltype(plain)>;
        if constexpr (std::is_same_v<T, std::monostate> || std::is_same_v<T, JsonList>) return Json();
        else return Json(plain);
      },
      value);
}

Json json_of_cell(const Dataset& data, const Row& row, size_t column, int64_t index) {
  const std::string where = data.where(index) + ", column " + data.columns()[column].name;
  Json value = json_of(row[column], where);
  if (!value.is_string()) return value;
  const std::string text = value.get<std::string>();
  if (!is_list_of_objects(text)) return value;
  if (data.is_untyped()) return parse_json(text, where);
  // A text of a file that has lists too may be about JSON: it is a list of messages where it reads as one.
  try {
    const Json list = parse_json(text, where);
    if (list[0].contains("role") || list[0].contains("from")) return list;
  } catch (const Error&) {  // a text like others
  }
  return value;
}

Dataset with_texts_as_written(Dataset data, std::initializer_list<std::string_view> columns) {
  if (data.is_untyped())
    for (const std::string_view name : columns)
      if (const auto column = data.find(name)) data = data.with_text(*column);
  return data;
}

std::string text_beside(const Dataset& data, const Row& row, std::string_view column, int64_t index) {
  const auto found = data.find(column);
  if (!found) return {};
  const std::string where = data.where(index);
  const Json value = json_of(row[*found], where);
  require(value.is_null() || value.is_string(), "{}, column {}: expected a text, found {}", where, column,
          quoted(dump_json(value)));
  return value.is_null() ? "" : value.get<std::string>();
}

TemplateColumns::TemplateColumns(const Dataset& data) : tools_(data.find("tools")) {
  for (size_t i = 0; i < data.columns().size(); ++i)
    if (const std::string& name = data.columns()[i].name; name.starts_with(kVariablePrefix))
      variables_.emplace_back(i, name.substr(kVariablePrefix.size()));
}

std::string TemplateColumns::tools(const Row& row, const std::string& where) const {
  if (!tools_) return {};
  Json tools = json_of(row[*tools_], where + ", column tools");
  if (tools.is_string()) tools = parse_json(tools.get<std::string>(), where + ", column tools");
  require(tools.is_null() || tools.is_array(), "{}, column tools: expected a list of JSON schemas, found {}", where,
          tools.type_name());
  return tools.is_null() || tools.empty() ? "" : dump_json(tools);
}

std::string TemplateColumns::variables(const Row& row, const std::string& where) const {
  Json variables = Json::object();
  for (const auto& [column, name] : variables_)
    if (Json value = json_of(row[column], where); !value.is_null()) variables[name] = std::move(value);
  return variables.empty() ? "" : dump_json(variables);
}

}  // namespace transom
