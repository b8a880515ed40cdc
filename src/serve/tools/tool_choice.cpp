// SPDX-License-Identifier: Apache-2.0
#include "serve/tools/tool_choice.h"

#include <algorithm>

namespace transom::serve {
namespace {

constexpr size_t kMostTools = 128;

const Json& parameters_of(const Json& function) {
  static const Json kAny{{"type", "object"}, {"additionalProperties", true}};
  const auto found = function.find("parameters");
  const bool none = found == function.end() || found->is_null() || (found->is_object() && found->empty());
  return none ? kAny : *found;
}

std::string name_of(const Json& tool, size_t i) {
  const std::string where = fmt::format("tools[{}]", i);
  if (!tool.is_object() || tool.value("type", Json()) != "function" || !tool.contains("function") ||
      !tool["function"].is_object())
    refuse_field(where, "{}: expected {{\"type\": \"function\", \"function\": {{...}}}}", where);
  const Json& function = tool["function"];
  if (!function.contains("name") || !function["name"].is_string())
    refuse_field(where, "{}.function.name: missing", where);
  const auto name = function["name"].get<std::string>();
  const bool fits = !name.empty() && name.size() <= 128 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
  if (!fits)
    refuse_field(where, "{}.function.name: expected up to 128 letters, digits, _ - and ., found {}", where,
                 quoted(name));
  if (function.contains("parameters") && !function["parameters"].is_object() && !function["parameters"].is_null())
    refuse_field(where, "{}.function.parameters: expected a JSON schema", where);
  return name;
}

}  // namespace

ToolChoice read_tool_choice(RequestFields& fields) {
  ToolChoice choice;
  const Json* tools = fields.list("tools", kMostTools);
  const Json* given = fields.any("tool_choice");
  const bool parallel = fields.boolean("parallel_tool_calls").value_or(true);
  if (!tools || tools->empty()) {
    if (given && *given != "none" && *given != "auto")
      refuse_field("tool_choice", "tool_choice: the request has no tools");
    return choice;
  }
  choice.tools = *tools;
  std::vector<std::string> names;
  for (size_t i = 0; i < tools->size(); ++i) names.push_back(name_of((*tools)[i], i));
  if (!given || *given == "auto") choice.what = ToolChoice::kAuto;
  else if (*given == "none") choice.what = ToolChoice::kNone;
  else if (*given == "required") choice.what = ToolChoice::kRequired;
  else if (given->is_object()) choice.what = ToolChoice::kNamed;
  else
    refuse_field("tool_choice", "tool_choice: expected none, auto, required or a function, found {}",
                 quoted(compact(*given)));
  if (choice.what == ToolChoice::kNamed) {
    const Json function = given->value("function", Json());
    const Json name = function.is_object() ? function.value("name", Json()) : given->value("name", Json());
    const auto found = std::find(names.begin(), names.end(), name.is_string() ? name.get<std::string>() : "");
    if (found == names.end())
      refuse_field("tool_choice", "tool_choice: expected the name of one of the tools, found {}",
                   quoted(compact(name)));
    choice.name = *found;
    choice.schema = parameters_of((*tools)[static_cast<size_t>(found - names.begin())]["function"]);
  }
  if (choice.what == ToolChoice::kRequired) {
    Json calls = Json::array();
    Json definitions = Json::object();
    for (size_t i = 0; i < names.size(); ++i) {
      Json parameters = parameters_of((*tools)[i]["function"]);
      // References of a schema lead into itself, wherever it stands.
      for (const char* shared : {"$defs", "definitions"})
        if (parameters.contains(shared) && parameters[shared].is_object())
          for (const auto& [name, content] : parameters[shared].items()) definitions[shared][name] = content;
      calls.push_back({{"type", "object"},
                       {"properties", {{"name", {{"const", names[i]}}}, {"parameters", std::move(parameters)}}},
                       {"required", {"name", "parameters"}},
                       {"additionalProperties", false}});
    }
    choice.schema = {{"type", "array"}, {"minItems", 1}, {"items", {{"anyOf", std::move(calls)}}}};
    choice.schema["maxItems"] = parallel ? 16 : 1;
    for (const auto& [name, content] : definitions.items()) choice.schema[name] = content;
  }
  return choice;
}

}  // namespace transom::serve
