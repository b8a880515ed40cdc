// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/openai/chat_of_response.h"

#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "apps/serve/api/known_fields.h"

namespace transom::serve {
namespace {

std::string text_of(const Json& item, const char* name, const std::string& where) {
  const auto found = item.find(name);
  if (found == item.end() || !found->is_string())
    refuse_field(where + "." + name, "{}.{}: expected a string", where, name);
  return found->get<std::string>();
}

// What is read of items, and what every answer of this server has beside it.
constexpr std::string_view kMessageItem[] = {"type", "id", "status", "role", "content"};
constexpr std::string_view kCallItem[] = {"type", "id", "status", "call_id", "name", "arguments"};
constexpr std::string_view kOutputItem[] = {"type", "id", "status", "call_id", "output"};
constexpr std::string_view kReasoningItem[] = {"type", "id", "status", "content", "summary"};

void report_item(const Json& item, const char* what, std::span<const std::string_view> known) {
  report_other_members(item, "/v1/responses", what, known);
}

class Conversation {
 public:
  explicit Conversation(ChatOfResponse& chat) : chat_(chat) { chat_.body["messages"] = Json::array(); }

  void add(Json message, int item) {
    chat_.body["messages"].push_back(std::move(message));
    chat_.items.push_back(item);
  }

  void add_item(const Json& item, int number) {
    const std::string where = fmt::format("input[{}]", number);
    if (!item.is_object()) refuse_field(where, "{}: expected an object", where);
    const Json type = item.value("type", Json("message"));
    if (type == "function_call") return add_call(item, number, where);
    if (type == "function_call_output") return add_output(item, number, where);
    if (type == "reasoning") return add_thoughts(item, where);
    if (type != "message")
      refuse_field(where, "{}: items of the type {} are not supported by this server", where,
                   quoted(type.is_string() ? type.get<std::string>() : compact(type)));
    report_item(item, "a message of the input", kMessageItem);
    add({{"role", item.value("role", Json())}, {"content", item.value("content", Json())}}, number);
    if (item.value("role", Json()) == "assistant") attach_thoughts();
  }

 private:
  // What was thought before the next item of the model.
  void add_thoughts(const Json& item, const std::string& where) {
    report_item(item, "reasoning of the input", kReasoningItem);
    const Json content = item.value("content", Json());
    if (content.is_null()) return;  // a summary is none
    if (!content.is_array()) refuse_field(where + ".content", "{}.content: expected a list", where);
    for (const Json& part : content) {
      if (!part.is_object()) refuse_field(where + ".content", "{}.content: expected parts", where);
      thoughts_ += text_of(part, "text", where + ".content");
    }
  }

  void attach_thoughts() {
    if (!thoughts_.empty()) chat_.body["messages"].back()["reasoning_content"] = std::exchange(thoughts_, {});
  }

  // Calls that follow each other, and the text before them, are one turn of the model.
  void add_call(const Json& item, int number, const std::string& where) {
    report_item(item, "a function_call of the input", kCallItem);
    const std::string id = text_of(item, "call_id", where), name = text_of(item, "name", where),
                      arguments = text_of(item, "arguments", where);
    names_[id] = name;
    Json& messages = chat_.body["messages"];
    if (messages.empty() || messages.back()["role"] != "assistant")
      add({{"role", "assistant"}, {"content", nullptr}}, number);
    attach_thoughts();
    messages.back()["tool_calls"].push_back(
        {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}});
  }

  void add_output(const Json& item, int number, const std::string& where) {
    report_item(item, "a function_call_output of the input", kOutputItem);
    const std::string id = text_of(item, "call_id", where);
    const auto call = names_.find(id);
    if (call == names_.end())
      refuse_field(where + ".call_id", "{}.call_id: expected that of a function_call before it, found {}", where,
                   quoted(id));
    add({{"role", "tool"}, {"tool_call_id", id}, {"name", call->second}, {"content", item.value("output", Json())}},
        number);
  }

  ChatOfResponse& chat_;
  std::string thoughts_;
  std::map<std::string, std::string> names_;  // of functions, by the ids of their calls
};

// {"type", "name", ...} as {"type", "function": {"name", ...}}.
Json tool_of_chat(const Json& tool, const std::string& where) {
  if (!tool.is_object()) refuse_field(where, "{}: expected an object", where);
  const Json type = tool.value("type", Json());
  if (type != "function")
    refuse_field(where, "{}: tools of the type {} are not supported by this server; expected \"function\"", where,
                 quoted(type.is_string() ? type.get<std::string>() : compact(type)));
  text_of(tool, "name", where);
  Json function = tool;
  function.erase("type");
  return {{"type", "function"}, {"function", std::move(function)}};
}

Json choice_of_chat(const Json& choice) {
  if (!choice.is_object()) return choice;
  const Json type = choice.value("type", Json());
  if (type == "allowed_tools" && !choice.contains("allowed_tools")) {
    Json allowed = choice;
    allowed.erase("type");
    return {{"type", "allowed_tools"}, {"allowed_tools", std::move(allowed)}};
  }
  if (type != "function" || !choice.contains("name") || !choice["name"].is_string())
    refuse_field("tool_choice",
                 "tool_choice: expected none, auto, required, {{\"type\": \"function\", \"name\": ...}} or {{\"type\": "
                 "\"allowed_tools\", \"mode\": ..., \"tools\": [...]}}, found {}",
                 quoted(compact(choice)));
  return choice;
}

}  // namespace

std::string ChatOfResponse::named(const std::string& text) const {
  const std::string messages = "messages[", allowed = "tool_choice.allowed_tools.", function = ".function";
  if (text.starts_with(allowed)) return "tool_choice." + text.substr(allowed.size());
  const size_t end = text.find(']');
  if (end == text.npos) return text;
  if (text.starts_with(messages)) {
    const auto number = static_cast<size_t>(std::strtoul(text.c_str() + messages.size(), nullptr, 10));
    if (number >= items.size()) return text;
    return items[number] < 0 ? "instructions" : fmt::format("input[{}{}", items[number], text.substr(end));
  }
  if (text.starts_with("tools[") && text.compare(end + 1, function.size(), function) == 0)
    return text.substr(0, end + 1) + text.substr(end + 1 + function.size());
  return text;
}

ChatOfResponse read_chat_of_response(RequestFields& fields) {
  ChatOfResponse chat;
  Conversation conversation(chat);
  if (const auto instructions = fields.text("instructions"))
    conversation.add({{"role", "system"}, {"content", *instructions}}, -1);
  const Json* input = fields.any("input");
  if (!input) refuse_field("input", "input: missing; expected a string or a list of items");
  if (!input->is_string() && (!input->is_array() || input->empty()))
    refuse_field("input", "input: expected a string or a list of items");
  if (input->is_string()) conversation.add({{"role", "user"}, {"content", *input}}, 0);
  else
    for (size_t i = 0; i < input->size(); ++i) conversation.add_item((*input)[i], static_cast<int>(i));
  if (const Json* tools = fields.list("tools"); tools && !tools->empty()) {
    chat.body["tools"] = Json::array();
    for (size_t i = 0; i < tools->size(); ++i)
      chat.body["tools"].push_back(tool_of_chat((*tools)[i], fmt::format("tools[{}]", i)));
  }
  if (const Json* choice = fields.any("tool_choice")) chat.body["tool_choice"] = choice_of_chat(*choice);
  if (const Json* reasoning = fields.object("reasoning")) {
    RequestFields inner(*reasoning, "reasoning");
    if (const auto effort = inner.text("effort", 32)) chat.body["reasoning_effort"] = *effort;
    expect_known_fields(inner, "/v1/responses");
  }
  if (const auto parallel = fields.boolean("parallel_tool_calls")) chat.body["parallel_tool_calls"] = *parallel;
  return chat;
}

}  // namespace transom::serve
