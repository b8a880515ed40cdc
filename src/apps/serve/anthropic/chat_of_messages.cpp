// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/anthropic/chat_of_messages.h"

#include <algorithm>
#include <map>
#include <utility>

#include "apps/serve/api/known_fields.h"

namespace transom::serve {
namespace {

constexpr size_t kMostGivenMessages = 1024, kMostGivenTools = 128;

std::string text_member(const Json& object, const char* name, const std::string& where) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string())
    refuse_field(where + "." + name, "{}.{}: expected a string", where, name);
  return found->get<std::string>();
}

std::string type_of(const Json& block, const std::string& where) {
  if (!block.is_object()) refuse_field(where, "{}: expected an object", where);
  return text_member(block, "type", where);
}

[[noreturn]] void refuse_type(const std::string& what, const std::string& type, const std::string& where) {
  refuse_field(where, "{}: {} of the type {} are not supported by this server", where, what, quoted(type));
}

// Members that would change the answer are logged, since nothing is done with them.
void report_others(const Json& object, const char* what, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.items())
    if (std::find(known.begin(), known.end(), name) == known.end() && !value.is_null() && value != false)
      report_once("/v1/messages", fmt::format("{}.{}", what, name),
                  fmt::format("/v1/messages: {} of {} has no effect", quoted(name), what));
}

// Text behind text begins a paragraph; pictures stand between.
void add_text(Json& parts, const std::string& text) {
  if (text.empty()) return;
  if (!parts.empty() && parts.back()["type"] == "text") {
    auto& last = parts.back()["text"].get_ref<std::string&>();
    last += (last.ends_with('\n') ? "\n" : "\n\n") + text;
  } else {
    parts.push_back({{"type", "text"}, {"text", text}});
  }
}

// {"type": "base64", "data"}, or a data: URL.
Json picture_of(const Json& block, const std::string& where) {
  const auto source = block.find("source");
  const std::string at = where + ".source";
  if (source == block.end()) refuse_field(at, "{}: missing", at);
  const std::string type = type_of(*source, at);
  if (type == "base64") return {{"type", "image"}, {"base64", text_member(*source, "data", at)}};
  if (type != "url") refuse_type("sources", type, at);
  return {{"type", "image_url"}, {"image_url", {{"url", text_member(*source, "url", at)}}}};
}

// A document that is text.
std::string document_of(const Json& block, const std::string& where) {
  const auto source = block.find("source");
  const std::string at = where + ".source";
  if (source == block.end()) refuse_field(at, "{}: missing", at);
  const std::string type = type_of(*source, at);
  if (type != "text") refuse_type("documents with a source", type, at);
  std::string text;
  for (const char* name : {"title", "context"})
    if (const auto found = block.find(name); found != block.end() && found->is_string())
      text += found->get<std::string>() + "\n";
  return text + text_member(*source, "data", at);
}

// Text, pictures and documents as the parts of a chat. Whether the block is one of these.
bool add_part(Json& parts, const Json& block, const std::string& type, const std::string& where) {
  report_others(block, "a block",
                {"type", "text", "source", "title", "context", "cache_control", "tool_use_id", "content", "is_error"});
  if (type == "text") add_text(parts, text_member(block, "text", where));
  else if (type == "image") parts.push_back(picture_of(block, where));
  else if (type == "document") add_text(parts, document_of(block, where));
  else return false;
  return true;
}

// The blocks of a content, which may be one text.
Json blocks_of(const Json& holder, const char* name, const std::string& where) {
  const auto content = holder.find(name);
  const std::string at = where + "." + name;
  if (content == holder.end() || content->is_null()) refuse_field(at, "{}: field required", at);
  if (content->is_string()) return Json::array({{{"type", "text"}, {"text", *content}}});
  if (!content->is_array()) refuse_field(at, "{}: expected a string or a list of blocks", at);
  return *content;
}

// One text as such.
Json content_of_parts(Json parts) {
  if (parts.empty()) return "";
  if (parts.size() == 1 && parts[0]["type"] == "text") return parts[0]["text"];
  return parts;
}

class MessageReader {
 public:
  explicit MessageReader(ChatOfMessages& chat) : chat_(chat) { chat_.body["messages"] = Json::array(); }

  void add_system(const Json& system) {
    Json parts = Json::array();
    const Json blocks = blocks_of(Json{{"system", system}}, "system", "");
    for (size_t i = 0; i < blocks.size(); ++i) {
      const std::string where = fmt::format("system.{}", i);
      if (const std::string type = type_of(blocks[i], where); type != "text") refuse_type("blocks", type, where);
      add_text(parts, text_member(blocks[i], "text", where));
    }
    if (!parts.empty()) add({{"role", "system"}, {"content", content_of_parts(std::move(parts))}}, -1);
  }

  void add_message(const Json& message, int number) {
    const std::string where = fmt::format("messages.{}", number);
    if (!message.is_object()) refuse_field(where, "{}: expected an object", where);
    const std::string role = text_member(message, "role", where);
    const Json blocks = blocks_of(message, "content", where);
    if (role == "user") return add_user(blocks, number, where + ".content");
    if (role == "assistant") return add_assistant(blocks, number, where + ".content");
    if (role != "system")
      refuse_field(where + ".role", "{}.role: expected \"user\" or \"assistant\", found {}", where, quoted(role));
    Json parts = Json::array();
    for (size_t i = 0; i < blocks.size(); ++i) {
      const std::string at = fmt::format("{}.content.{}", where, i), type = type_of(blocks[i], at);
      if (type != "text") refuse_type("blocks", type, at);
      add_text(parts, text_member(blocks[i], "text", at));
    }
    add({{"role", "system"}, {"content", content_of_parts(std::move(parts))}}, number);
  }

  // The answer goes on where a last turn of the assistant ends.
  void finish() {
    Json& messages = chat_.body["messages"];
    for (Json& message : messages)
      if (message["content"].is_array()) message["content"] = content_of_parts(std::move(message["content"]));
    if (messages.empty() || messages.back()["role"] != "assistant") return;
    if (messages.back().contains("tool_calls"))
      refuse_field("messages", "messages.{}: tool_use without a tool_result in the next message", chat_.origins.back());
    chat_.body["continue_final_message"] = true;
  }

 private:
  Json& add(Json message, int number) {
    chat_.body["messages"].push_back(std::move(message));
    chat_.origins.push_back(number);
    return chat_.body["messages"].back();
  }

  // The last message if it is of this role: turns that follow each other are one.
  Json& turn_of(const char* role, int number) {
    Json& messages = chat_.body["messages"];
    if (!messages.empty() && messages.back()["role"] == role) return messages.back();
    return add({{"role", role}, {"content", Json::array()}}, number);
  }

  // Results of calls are messages of their own.
  void add_user(const Json& blocks, int number, const std::string& where) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      const std::string at = fmt::format("{}.{}", where, i), type = type_of(blocks[i], at);
      if (type == "tool_result") add_result(blocks[i], number, at);
      else if (!add_part(turn_of("user", number)["content"], blocks[i], type, at)) refuse_type("blocks", type, at);
    }
    if (blocks.empty()) turn_of("user", number);
  }

  void add_result(const Json& block, int number, const std::string& where) {
    const std::string id = text_member(block, "tool_use_id", where);
    const auto call = names_.find(id);
    if (call == names_.end())
      refuse_field(where + ".tool_use_id", "{}.tool_use_id: expected that of a tool_use before it, found {}", where,
                   quoted(id));
    Json parts = Json::array();
    if (block.value("is_error", Json(false)) == true) parts.push_back({{"type", "text"}, {"text", "Error:"}});
    if (const auto content = block.find("content"); content != block.end() && !content->is_null()) {
      const Json inner = blocks_of(block, "content", where);
      for (size_t i = 0; i < inner.size(); ++i) {
        const std::string at = fmt::format("{}.content.{}", where, i), type = type_of(inner[i], at);
        if (!add_part(parts, inner[i], type, at)) refuse_type("blocks", type, at);
      }
    }
    add({{"role", "tool"},
         {"tool_call_id", id},
         {"name", call->second},
         {"content", content_of_parts(std::move(parts))}},
        number);
  }

  void add_assistant(const Json& blocks, int number, const std::string& where) {
    Json& message = turn_of("assistant", number);
    for (size_t i = 0; i < blocks.size(); ++i) {
      const Json& block = blocks[i];
      const std::string at = fmt::format("{}.{}", where, i), type = type_of(block, at);
      if (type == "thinking") {
        const std::string before = message.value("reasoning_content", std::string());
        message["reasoning_content"] = before + (before.empty() ? "" : "\n\n") + text_member(block, "thinking", at);
      } else if (type == "tool_use") {
        add_call(message, block, at);
      } else if (type == "text") {
        add_text(message["content"], text_member(block, "text", at));
      } else if (type != "redacted_thinking") {  // which nobody can read
        refuse_type("blocks", type, at);
      }
    }
  }

  void add_call(Json& message, const Json& block, const std::string& where) {
    const std::string id = text_member(block, "id", where), name = text_member(block, "name", where);
    const auto input = block.find("input");
    if (input == block.end() || !input->is_object())
      refuse_field(where + ".input", "{}.input: expected an object", where);
    names_[id] = name;
    message["tool_calls"].push_back(
        {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", *input}}}});
  }

  ChatOfMessages& chat_;
  std::map<std::string, std::string> names_;  // of tools, by the ids of their calls
};

Json tool_of(const Json& tool, const std::string& where) {
  if (!tool.is_object()) refuse_field(where, "{}: expected an object", where);
  const Json type = tool.value("type", Json());
  if (!type.is_null() && type != "custom")
    refuse_type("tools", type.is_string() ? type.get<std::string>() : compact(type), where + ".type");
  report_others(tool, "a tool",
                {"type", "name", "description", "input_schema", "cache_control", "eager_input_streaming"});
  Json function{{"name", text_member(tool, "name", where)}};
  if (const auto text = tool.find("description"); text != tool.end()) function["description"] = *text;
  const auto schema = tool.find("input_schema");
  if (schema == tool.end() || !schema->is_object())
    refuse_field(where + ".input_schema", "{}.input_schema: expected a JSON schema", where);
  function["parameters"] = *schema;
  return {{"type", "function"}, {"function", std::move(function)}};
}

void read_choice(RequestFields& fields, Json& body) {
  const Json* given = fields.object("tool_choice");
  if (!given) return;
  RequestFields choice(*given, "tool_choice");
  const auto type = choice.choice("type", {"auto", "any", "tool", "none"});
  if (!type) refuse_field("tool_choice.type", "tool_choice.type: field required");
  const auto name = choice.text("name");
  if (*type == "tool" && !name) refuse_field("tool_choice.name", "tool_choice.name: field required");
  if (*type == "tool") body["tool_choice"] = {{"type", "function"}, {"function", {{"name", *name}}}};
  else body["tool_choice"] = *type == "any" ? "required" : *type;
  if (choice.boolean("disable_parallel_tool_use").value_or(false)) body["parallel_tool_calls"] = false;
  expect_known_fields(choice, "/v1/messages");
}

// Without the field a request asks for no thoughts.
void read_thinking(RequestFields& fields, ChatOfMessages& chat) {
  const Json* given = fields.object("thinking");
  std::string type = "disabled";
  if (given) {
    RequestFields thinking(*given, "thinking");
    const auto word = thinking.choice("type", {"enabled", "disabled", "adaptive", "between_tools"});
    if (!word) refuse_field("thinking.type", "thinking.type: field required");
    type = *word;
    chat.budget = thinking.integer("budget_tokens", 1, INT32_MAX);
    if (type == "enabled" && !chat.budget)
      refuse_field("thinking.budget_tokens", "thinking.budget_tokens: field required");
    const auto display = thinking.choice("display", {"summarized", "omitted"});
    chat.thinks = type != "disabled" && display != "omitted";
    expect_known_fields(thinking, "/v1/messages");
  }
  if (type != "enabled") chat.budget.reset();
  if (type == "disabled") chat.body["chat_template_kwargs"] = {{"enable_thinking", false}};
  else chat.body["think"] = true;
}

}  // namespace

std::string ChatOfMessages::named(const std::string& text) const {
  const std::string messages = "messages[", tools = "tools[";
  const size_t end = text.find(']');
  if (end == text.npos) return text;
  if (text.starts_with(messages)) {
    const auto number = static_cast<size_t>(std::strtoul(text.c_str() + messages.size(), nullptr, 10));
    if (number >= origins.size()) return text;
    return (origins[number] < 0 ? "system" : fmt::format("messages.{}", origins[number])) + text.substr(end + 1);
  }
  if (!text.starts_with(tools)) return text;
  std::string rest = text.substr(end + 1);
  if (const std::string function = ".function"; rest.starts_with(function)) rest.erase(0, function.size());
  return fmt::format("tools.{}{}", text.substr(tools.size(), end - tools.size()), rest);
}

ChatOfMessages read_chat_of_messages(RequestFields& fields) {
  ChatOfMessages chat;
  MessageReader reader(chat);
  if (const Json* system = fields.any("system")) reader.add_system(*system);
  const Json* messages = fields.list("messages", kMostGivenMessages);
  if (!messages) refuse_field("messages", "messages: field required");
  if (messages->empty()) refuse_field("messages", "messages: at least one message is required");
  for (size_t i = 0; i < messages->size(); ++i) reader.add_message((*messages)[i], static_cast<int>(i));
  reader.finish();
  if (const Json* tools = fields.list("tools", kMostGivenTools); tools && !tools->empty()) {
    chat.body["tools"] = Json::array();
    for (size_t i = 0; i < tools->size(); ++i)
      chat.body["tools"].push_back(tool_of((*tools)[i], fmt::format("tools.{}", i)));
  }
  read_choice(fields, chat.body);
  read_thinking(fields, chat);
  if (const Json* output = fields.object("output_config")) {
    RequestFields inner(*output, "output_config");
    inner.object("format");  // read with the form of the answer
    const auto effort = inner.text("effort", 32);
    if (effort && chat.body.contains("think")) chat.body["reasoning_effort"] = *effort;
    else if (effort)
      report_once("/v1/messages", "output_config.effort",
                  "/v1/messages: output_config.effort has no effect without thinking");
    expect_known_fields(inner, "/v1/messages");
  }
  return chat;
}

}  // namespace transom::serve
