// SPDX-License-Identifier: Apache-2.0
#include "work/generation/image_text/chat_parts.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {
namespace {

constexpr std::string_view kProbe = "8f2c41";  // no template writes it by itself

std::string probed(const Json& content, const Tokenizer& tokenizer, ChatOptions options,
                   const std::string& role = "user") {
  options.add_generation_prompt = true;
  options.continue_final_message = false;
  Json messages = Json::array({{{"role", role}, {"content", content}}});
  const Json user{{"role", "user"}, {"content", ""}};
  if (role == "assistant") messages.insert(messages.begin(), user);
  if (role == "system") messages.push_back(user);
  try {
    return tokenizer.apply_chat_template(dump_json(messages), options);
  } catch (const Error&) {
    return "";  // it takes no content of this form
  }
}

bool is_part(const Json& part, const char* type) { return part.is_object() && part.value("type", Json()) == type; }

bool has_images(const Json& parts) {
  return std::any_of(parts.begin(), parts.end(), [](const Json& part) { return is_part(part, "image"); });
}

// The contents that are lists of texts, of roles whose lists the template does not write, as texts. Those of tools are
// answered calls, of which no probe could be made.
Json fitting_roles(Json messages, const Tokenizer& tokenizer, const ChatOptions& options) {
  std::map<std::string, bool> writes{{"user", true}};
  for (Json& message : messages) {
    if (!message.is_object() || !message.contains("content") || !message["content"].is_array()) continue;
    if (has_images(message["content"])) continue;
    const Json role = message.value("role", Json());
    const std::string name = role.is_string() ? role.get<std::string>() : "";
    if ((name == "system" || name == "assistant") && !writes.contains(name))
      writes[name] = writes_parts(tokenizer, options, name);
    if (!writes[name]) message = joined_parts(Json::array({message}), "")[0];
  }
  return messages;
}

}  // namespace

bool writes_parts(const Tokenizer& tokenizer, const ChatOptions& options, const std::string& role) {
  const std::string text = probed(Json::array({{{"type", "text"}, {"text", kProbe}}}), tokenizer, options, role);
  return text.find(kProbe) != text.npos && text.find("'type'") == text.npos && text.find("\"type\"") == text.npos;
}

Json joined_parts(Json messages, const std::string& image_token) {
  for (Json& message : messages) {
    if (!message.is_object() || !message.contains("content") || !message["content"].is_array()) continue;
    std::string text;
    bool behind_text = false;
    for (const Json& part : message["content"])
      if (is_part(part, "image")) {
        text += image_token + '\n';
        behind_text = false;
      } else if (is_part(part, "text") && part.contains("text") && part["text"].is_string()) {
        text += (behind_text ? "\n" : "") + part["text"].get<std::string>();
        behind_text = true;
      } else
        fail("messages: expected parts {{\"type\": \"text\", \"text\"}} and {{\"type\": \"image\"}}, found {}",
             quoted(dump_json(part), 80));
    message["content"] = text;
  }
  return messages;
}

Json listed_parts(Json messages) {
  for (Json& message : messages)
    if (message.is_object() && message.contains("content") && message["content"].is_string())
      message["content"] = Json::array({{{"type", "text"}, {"text", message["content"]}}});
  return messages;
}

bool adds_special_tokens(const std::string& prompt, const Tokenizer& tokenizer) {
  const std::optional<std::string> first = tokenizer.special_token("bos");
  return !first || !prompt.starts_with(*first);
}

Json fitting_parts(const Json& messages, const Tokenizer& tokenizer, const ChatOptions& options,
                   const std::string& image_token) {
  if (!writes_parts(tokenizer, options)) return joined_parts(messages, image_token);
  // Where it writes contents that are texts too, they stay what they are.
  if (probed(Json(kProbe), tokenizer, options).find(kProbe) == std::string::npos) return listed_parts(messages);
  return fitting_roles(messages, tokenizer, options);
}

Json fitting_texts(const Json& messages, const Tokenizer& tokenizer, const ChatOptions& options) {
  bool any = false;
  for (const Json& message : messages) {
    if (!message.is_object() || !message.contains("content") || !message["content"].is_array()) continue;
    any = true;
    for (const Json& part : message["content"])
      if (is_part(part, "image") || is_part(part, "image_url"))
        fail("messages: expected texts, since the model reads no pictures, found {}", quoted(dump_json(part), 80));
  }
  return any ? fitting_parts(messages, tokenizer, options, "") : messages;
}

WrittenChat written_chat(const Json& messages, const Tokenizer& tokenizer, const ChatOptions& options,
                         const std::string& image_token) {
  const Json fitting = fitting_parts(messages, tokenizer, options, image_token);
  const std::string text = tokenizer.apply_chat_template(dump_json(fitting), options);
  return {text, adds_special_tokens(text, tokenizer)};
}

}  // namespace transom
