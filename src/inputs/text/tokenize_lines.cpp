// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/tokenize_lines.h"

#include "inputs/text/components/fields.h"

namespace transom {

using namespace text;

namespace {

// {"messages": [...], "add_generation_prompt": true, "tools": [...] ...}
std::string chat_text(const Tokenizer& tokenizer, const Json& json, const std::string& where) {
  ChatOptions options;
  options.add_generation_prompt = bool_field(json, "add_generation_prompt", where, false);
  options.continue_final_message = bool_field(json, "continue_final_message", where, false);
  options.chat_template = string_field(json, "chat_template", where, "");
  const auto text = [&](const char* key) {
    const Json& value = field(json, key, where);
    return value.is_null() ? std::string() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  options.tools = text("tools"), options.documents = text("documents"),
  options.variables = text("chat_template_kwargs");
  return tokenizer.apply_chat_template(text("messages"), options);
}

}  // namespace

std::string tokenize_line(const Tokenizer& tokenizer, std::string_view line, const std::string& where) {
  const Json json = parse_json(line, where);
  const Json& messages = field(json, "messages", where);
  const std::string text = messages.is_null() ? string_field(json, "text", where) : chat_text(tokenizer, json, where);
  const std::string pair = string_field(json, "text_pair", where, "");
  EncodeOptions options;
  options.add_special_tokens = bool_field(json, "add_special_tokens", where, messages.is_null());
  const Encoding encoding =
      tokenizer.encode(text, pair.empty() ? std::nullopt : std::optional<std::string_view>(pair), options);
  Json result;
  if (!messages.is_null()) result["text"] = text;
  result["ids"] = encoding.ids;
  result["type_ids"] = encoding.type_ids;
  result["attention_mask"] = encoding.attention_mask;
  result["offsets"] = tokenizer.has_offsets() ? Json(encoding.offsets) : Json();
  result["tokens"] = encoding.tokens;
  result["decoded"] = tokenizer.decode(encoding.ids);
  result["decoded_skip_special"] = tokenizer.decode(encoding.ids, true);
  return dump_json(result, -1, true);
}

}  // namespace transom
