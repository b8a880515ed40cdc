// SPDX-License-Identifier: Apache-2.0
#include "work/generation/image_text/chat_parts.h"

#include "base/error.h"
#include "base/json/json.h"

namespace transom {
namespace {

constexpr std::string_view kProbe = "8f2c41";  // no template writes it by itself

std::string probed(const Json& content, const Tokenizer& tokenizer, ChatOptions options) {
  options.add_generation_prompt = true;
  options.continue_final_message = false;
  try {
    return tokenizer.apply_chat_template(dump_json(Json::array({{{"role", "user"}, {"content", content}}})), options);
  } catch (const Error&) {
    return "";  // it takes no content of this form
  }
}

bool is_part(const Json& part, const char* type) { return part.is_object() && part.value("type", Json()) == type; }

}  // namespace

bool writes_parts(const Tokenizer& tokenizer, const ChatOptions& options) {
  const std::string text = probed(Json::array({{{"type", "text"}, {"text", kProbe}}}), tokenizer, options);
  return text.find(kProbe) != text.npos && text.find("'type'") == text.npos && text.find("\"type\"") == text.npos;
}

Json joined_parts(Json messages, const std::string& image_token) {
  for (Json& message : messages) {
    if (!message.is_object() || !message.contains("content") || !message["content"].is_array()) continue;
    std::string text;
    for (const Json& part : message["content"])
      if (is_part(part, "image")) text += image_token + '\n';
      else if (is_part(part, "text") && part.contains("text") && part["text"].is_string())
        text += part["text"].get<std::string>();
      else
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
  return probed(Json(kProbe), tokenizer, options).find(kProbe) == std::string::npos ? listed_parts(messages) : messages;
}

WrittenChat written_chat(const Json& messages, const Tokenizer& tokenizer, const ChatOptions& options,
                         const std::string& image_token) {
  const Json fitting = fitting_parts(messages, tokenizer, options, image_token);
  const std::string text = tokenizer.apply_chat_template(dump_json(fitting), options);
  return {text, adds_special_tokens(text, tokenizer)};
}

}  // namespace transom
