// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/openai/functions.h"

#include "apps/serve/api/request_json.h"

namespace transom::serve {
namespace {

// A call had no id: what follows it is its result.
void replace_in_messages(Json& messages) {
  int calls = 0;
  const auto id = [&] { return "call_" + std::to_string(calls); };
  for (Json& message : messages) {
    if (!message.is_object()) continue;
    if (const auto call = message.find("function_call"); call != message.end() && !call->is_null()) {
      ++calls;
      const Json tool_call{{"id", id()}, {"type", "function"}, {"function", *call}};
      message.erase("function_call");
      message["tool_calls"] = Json::array({tool_call});
    } else if (message.value("role", Json()) == "function") {
      message["role"] = "tool";
      message["tool_call_id"] = id();
    }
  }
}

}  // namespace

bool replace_functions(Json& body) {
  if (!body.is_object()) return false;
  if (const auto messages = body.find("messages"); messages != body.end() && messages->is_array())
    replace_in_messages(*messages);
  const Json functions = body.value("functions", Json()), choice = body.value("function_call", Json());
  if (functions.is_null() && choice.is_null()) return false;
  for (const char* newer : {"tools", "tool_choice"})
    if (body.contains(newer) && !body[newer].is_null())
      refuse_field("functions", "functions: expected nothing beside {}", newer);
  if (!functions.is_array() || functions.empty()) refuse_field("functions", "functions: expected a list of functions");
  body["tools"] = Json::array();
  for (const Json& function : functions) body["tools"].push_back({{"type", "function"}, {"function", function}});
  if (choice.is_object()) body["tool_choice"] = {{"type", "function"}, {"function", choice}};
  else if (choice == "auto" || choice == "none") body["tool_choice"] = choice;
  else if (!choice.is_null())
    refuse_field("function_call", "function_call: expected none, auto or {{\"name\": ...}}, found {}",
                 quoted(compact(choice)));
  body["parallel_tool_calls"] = false;  // an answer has one
  body.erase("functions"), body.erase("function_call");
  return true;
}

}  // namespace transom::serve
