// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/tools/tool_choice.h"

#include <algorithm>
#include <set>

#include "apps/serve/api/known_fields.h"

namespace transom::serve {
namespace {

constexpr size_t kMostTools = 128;

const Json& parameters_of(const Json& function) {
  static const Json kAny{{"type", "object"}, {"additionalProperties", true}};
  const auto found = function.find("parameters");
  const bool none = found == function.end() || found->is_null() || (found->is_object() && found->empty());
  return none ? kAny : *found;
}

// The schema as it is at another place of a larger one: its references lead into itself. `are_names`: the keys of the
// object are names, behind which schemas stand.
Json moved_schema(const Json& schema, const std::string& place, bool are_names = false) {
  const auto is_one_of = [](const std::string& key, std::initializer_list<const char*> keys) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  Json result = schema;
  if (schema.is_array())
    for (Json& item : result) item = moved_schema(item, place);
  if (!schema.is_object()) return result;
  for (const auto& [key, value] : schema.items()) {
    if (!are_names && key == "$ref" && value.is_string() && value.get_ref<const std::string&>().starts_with("#"))
      result[key] = place + value.get<std::string>().substr(1);
    else if (are_names || !is_one_of(key, {"enum", "const", "default", "examples"}))
      result[key] = moved_schema(value, place,
                                 !are_names && is_one_of(key, {"properties", "patternProperties", "dependentSchemas",
                                                               "$defs", "definitions"}));
  }
  return result;
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

// A call that the model chooses is written as it likes, and is found in its text.
void report_strict(const Json& tools) {
  for (const Json& tool : tools)
    if (tool["function"].value("strict", Json()) == true)
      report_once(
          "tools", "strict",
          "tools: 'strict' has no effect where tool_choice is auto: arguments are held to their schema in calls "
          "that are required");
}

bool is_allowed_tools(const Json* choice) {
  return choice && choice->is_object() && choice->value("type", Json()) == "allowed_tools";
}

// {"function": {"name"}}, or {"name"} as /v1/responses has it.
std::string name_in(const Json& choice) {
  if (!choice.is_object()) return "";
  const Json function = choice.value("function", Json());
  const Json name = function.is_object() ? function.value("name", Json()) : choice.value("name", Json());
  return name.is_string() ? name.get<std::string>() : "";
}

}  // namespace

Json allowed_tools(const Json& tools, const Json* choice) {
  if (!is_allowed_tools(choice)) return tools;
  const Json inner = choice->value("allowed_tools", Json());
  const Json listed = inner.is_object() ? inner.value("tools", Json()) : Json();
  const std::string where = "tool_choice.allowed_tools.tools";
  if (!listed.is_array() || listed.empty()) refuse_field(where, "{}: expected a list of at least one tool", where);
  std::set<std::string> names;
  for (const Json& tool : listed) names.insert(name_in(tool));
  Json left = Json::array();
  for (size_t i = 0; i < tools.size(); ++i)
    if (const std::string name = name_of(tools[i], i); names.erase(name) > 0) left.push_back(tools[i]);
  if (!names.empty())
    refuse_field(where, "{}: expected names of the request's tools, found {}", where, quoted(*names.begin()));
  return left;
}

ToolChoice read_tool_choice(RequestFields& fields) {
  ToolChoice choice;
  const Json* tools = fields.list("tools", kMostTools);
  const Json* given = fields.any("tool_choice");
  choice.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  if (!tools || tools->empty()) {
    if (given && *given != "none" && *given != "auto")
      refuse_field("tool_choice", "tool_choice: the request has no tools");
    return choice;
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < tools->size(); ++i) names.push_back(name_of((*tools)[i], i));
  choice.tools = allowed_tools(*tools, given);
  Json mode;
  if (is_allowed_tools(given)) {
    RequestFields inner((*given)["allowed_tools"], "tool_choice.allowed_tools");
    mode = inner.choice("mode", {"auto", "required"}).value_or("auto");
    given = &mode;
    names.clear();
    for (size_t i = 0; i < choice.tools.size(); ++i) names.push_back(name_of(choice.tools[i], i));
  }
  if (!given || *given == "auto") choice.what = ToolChoice::kAuto;
  else if (*given == "none") choice.what = ToolChoice::kNone;
  else if (*given == "required") choice.what = ToolChoice::kRequired;
  else if (given->is_object()) choice.what = ToolChoice::kNamed;
  else
    refuse_field("tool_choice", "tool_choice: expected none, auto, required or a function, found {}",
                 quoted(compact(*given)));
  if (choice.what == ToolChoice::kAuto) report_strict(choice.tools);
  if (choice.what == ToolChoice::kNamed) {
    const std::string name = name_in(*given);
    const auto found = std::find(names.begin(), names.end(), name);
    if (name.empty())
      refuse_field("tool_choice",
                   "tool_choice: expected {{\"type\": \"function\", \"function\": {{\"name\": ...}}}}, found {}",
                   quoted(compact(*given)));
    if (found == names.end())
      refuse_field("tool_choice", "tool_choice: expected the name of one of the tools, found {}", quoted(name));
    choice.name = *found;
    choice.schema = parameters_of(choice.tools[static_cast<size_t>(found - names.begin())]["function"]);
  }
  if (choice.what == ToolChoice::kRequired) {
    Json calls = Json::array();
    Json definitions = Json::object();
    for (size_t i = 0; i < names.size(); ++i) {
      Json parameters = parameters_of(choice.tools[i]["function"]);
      // Two tools may call different schemas by one name, so that each keeps its own.
      const std::string own = fmt::format("tool_{}", i), place = "#/$defs/" + own;
      if (Json moved = moved_schema(parameters, place); moved != parameters) {
        definitions[own] = std::move(moved);
        parameters = {{"$ref", place}};
      }
      calls.push_back({{"type", "object"},
                       {"properties", {{"name", {{"const", names[i]}}}, {"parameters", std::move(parameters)}}},
                       {"required", {"name", "parameters"}},
                       {"additionalProperties", false}});
    }
    choice.schema = {{"type", "array"}, {"minItems", 1}, {"items", {{"anyOf", std::move(calls)}}}};
    choice.schema["maxItems"] = choice.parallel ? 16 : 1;
    if (!definitions.empty()) choice.schema["$defs"] = std::move(definitions);
  }
  return choice;
}

}  // namespace transom::serve
