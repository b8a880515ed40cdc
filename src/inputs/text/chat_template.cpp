// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/chat_template.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "inputs/text/components/fields.h"
#include "inputs/text/jinja/interpreter.h"
#include "inputs/text/jinja/nodes.h"
#include "inputs/text/unicode/clean_up.h"

namespace transom::text {
namespace {

constexpr std::string_view kContinueTag = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr size_t kMaximumTemplate = size_t{1} << 22;

// Fields that are null count as missing. Reasoning has had several names: templates read the newest, gpt-oss
// "thinking".
Json plain_message(const Json& message) {
  require(message.is_object(), "messages: expected objects with a role and content, found {}", message.type_name());
  Json result = Json::object();
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(name);
    if (found == message.end() || found->is_null()) continue;
    if (!message.contains("thinking") || message["thinking"].is_null()) result["thinking"] = *found;
    for (const auto& [key, value] : message.items())
      if (!value.is_null()) result[key] = value;
    result["reasoning_content"] = *found;
    return result;
  }
  for (const auto& [key, value] : message.items())
    if (!value.is_null()) result[key] = value;
  return result;
}

// Marks where the last message ends, and gives its text.
std::string tag_final_message(Json& messages) {
  require(!messages.empty(), "continue_final_message: the conversation is empty");
  Json& content = messages.back()["content"];
  if (content.is_array()) {
    for (auto part = content.rbegin(); part != content.rend(); ++part) {
      if (!part->is_object() || !part->contains("text") || !(*part)["text"].is_string()) continue;
      std::string text = (*part)["text"].get<std::string>();
      (*part)["text"] = text + std::string(kContinueTag);
      return text;
    }
  }
  require(content.is_string(), "continue_final_message: the final message has no text to continue");
  std::string text = content.get<std::string>();
  content = text + std::string(kContinueTag);
  return text;
}

std::string without_tag(std::string rendered, const std::string& final_text) {
  const std::string tag = stripped(std::string(kContinueTag));
  const size_t at = rendered.rfind(tag);
  require(at != std::string::npos && rendered.find(stripped(final_text)) != std::string::npos,
          "continue_final_message: the template does not write the final message");
  const bool spaced = std::string_view(rendered).substr(at, kContinueTag.size()) == kContinueTag;
  rendered.resize(at);
  while (!spaced && !rendered.empty() &&
         std::string_view(" \t\n\r\v\f").find(rendered.back()) != std::string_view::npos)
    rendered.pop_back();
  return rendered;
}

}  // namespace

ChatTemplates read_chat_templates(const Json& config, const std::string& where) {
  ChatTemplates result;
  const Json& value = field(config, "chat_template", where);
  const std::string at = where + ": chat_template";
  if (value.is_null()) return result;
  if (value.is_string()) {
    result["default"] = value.get<std::string>();
  } else if (value.is_object()) {
    for (const auto& [name, source] : value.items()) {
      require(source.is_string(), "{}.{}: expected a text, found {}", at, name, source.type_name());
      result[name] = source.get<std::string>();
    }
  } else {
    require(value.is_array(), "{}: expected a text or a list of named templates, found {}", at, value.type_name());
    for (const Json& item : value) result[string_field(item, "name", at)] = string_field(item, "template", at);
  }
  return result;
}

const std::string& choose_chat_template(const ChatTemplates& templates, const ChatOptions& options) {
  if (!options.chat_template.empty()) {
    const auto named = templates.find(options.chat_template);
    return named == templates.end() ? options.chat_template : named->second;
  }
  require(!templates.empty(),
          "apply_chat_template: the tokenizer has no chat_template, neither in tokenizer_config.json nor in "
          "chat_template.jinja; give one in the options");
  for (const char* name : {options.tools.empty() ? "default" : "tool_use", "default"})
    if (const auto found = templates.find(name); found != templates.end()) return found->second;
  if (templates.size() == 1) return templates.begin()->second;
  std::vector<std::string> names;
  for (const auto& [name, source] : templates) names.push_back(name);
  fail("apply_chat_template: the tokenizer has several templates and none named default: choose one of {}",
       fmt::join(names, ", "));
}

ChatText render_chat(const std::string& source, std::string_view messages, const ChatOptions& options,
                     const std::map<std::string, std::string>& special_tokens) {
  require(source.size() < kMaximumTemplate, "chat_template: expected less than {} bytes, found {}", kMaximumTemplate,
          source.size());
  require(!options.continue_final_message || !options.add_generation_prompt,
          "apply_chat_template: continue_final_message and add_generation_prompt exclude each other");
  const Json given = parse_json(messages, "messages");
  require(given.is_array(), "messages: expected an array of objects, found {}", given.type_name());
  Json conversation = Json::array();
  for (const Json& message : given) conversation.push_back(plain_message(message));
  std::string final_text;
  if (options.continue_final_message) final_text = tag_final_message(conversation);
  const auto optional = [](const std::string& text, const char* name) {
    return text.empty() ? jinja::Value(jinja::None{}) : jinja::from_json(parse_json(text, name));
  };
  std::vector<std::pair<std::string, jinja::Value>> variables;
  for (const auto& [name, token] : special_tokens) variables.emplace_back(name, token);
  if (!options.variables.empty()) {
    const Json more = parse_json(options.variables, "variables");
    require(more.is_object(), "variables: expected an object, found {}", more.type_name());
    for (const auto& [name, value] : more.items()) variables.emplace_back(name, jinja::from_json(value));
  }
  variables.emplace_back("messages", jinja::from_json(conversation));
  variables.emplace_back("tools", optional(options.tools, "tools"));
  variables.emplace_back("documents", optional(options.documents, "documents"));
  variables.emplace_back("add_generation_prompt", options.add_generation_prompt);
  ChatText result;
  try {
    const jinja::Body body = jinja::parse_template(source);
    jinja::Interpreter interpreter;
    result.text = interpreter.render(body, std::move(variables));
    if (options.mark_generated) result.generated = interpreter.generated();
  } catch (const Error& error) {
    fail("chat_template: {}", error.what());
  }
  if (options.continue_final_message) result.text = without_tag(std::move(result.text), final_text);
  for (auto& [begin, end] : result.generated) end = std::min(end, result.text.size()), begin = std::min(begin, end);
  return result;
}

}  // namespace transom::text
