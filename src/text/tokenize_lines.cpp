// SPDX-License-Identifier: Apache-2.0
#include "text/tokenize_lines.h"

#include "text/fields.h"

namespace transom {

using namespace text;

std::string tokenize_line(const Tokenizer& tokenizer, std::string_view line, const std::string& where) {
  const Json json = parse_json(line, where);
  const std::string text = string_field(json, "text", where), pair = string_field(json, "text_pair", where, "");
  EncodeOptions options;
  options.add_special_tokens = bool_field(json, "add_special_tokens", where, true);
  const Encoding encoding =
      tokenizer.encode(text, pair.empty() ? std::nullopt : std::optional<std::string_view>(pair), options);
  Json result;
  result["ids"] = encoding.ids;
  result["type_ids"] = encoding.type_ids;
  result["attention_mask"] = encoding.attention_mask;
  result["offsets"] = encoding.offsets;
  result["tokens"] = encoding.tokens;
  result["decoded"] = tokenizer.decode(encoding.ids);
  result["decoded_skip_special"] = tokenizer.decode(encoding.ids, true);
  return dump_json(result, -1, true);
}

}  // namespace transom
