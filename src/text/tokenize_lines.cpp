// SPDX-License-Identifier: Apache-2.0
#include "text/tokenize_lines.h"

#include "base/error.h"
#include "base/json.h"

namespace transom {

std::string tokenize_line(const Tokenizer& tokenizer, std::string_view line, const std::string& where) {
  const Json json = parse_json(line, where);
  if (!json.is_object() || !json.contains("text") || !json["text"].is_string())
    fail("{}: expected an object with a string \"text\"", where);
  std::optional<std::string> pair;
  if (json.contains("text_pair") && json["text_pair"].is_string() && !json["text_pair"].get<std::string>().empty())
    pair = json["text_pair"].get<std::string>();
  EncodeOptions options;
  if (json.contains("add_special_tokens") && json["add_special_tokens"].is_boolean())
    options.add_special_tokens = json["add_special_tokens"].get<bool>();
  const Encoding e = tokenizer.encode(json["text"].get<std::string>(),
                                      pair ? std::optional<std::string_view>(*pair) : std::nullopt, options);
  return dump_json({{"ids", e.ids},
                    {"type_ids", e.type_ids},
                    {"attention_mask", e.attention_mask},
                    {"offsets", e.offsets},
                    {"tokens", e.tokens},
                    {"decoded", tokenizer.decode(e.ids)},
                    {"decoded_skip_special", tokenizer.decode(e.ids, true)}},
                   -1, true);
}

}  // namespace transom
