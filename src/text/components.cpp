// SPDX-License-Identifier: Apache-2.0
#include "text/components.h"

#include "base/error.h"
#include "base/json.h"

namespace transom::text {

std::string component_type(const Json& json, const std::string& where) {
  if (!json.is_object() || !json.contains("type") || !json["type"].is_string())
    fail("{}: a component must be an object with a type", where);
  return json["type"].get<std::string>();
}

bool flag(const Json& json, const char* name, bool otherwise) {
  const auto found = json.find(name);
  return found != json.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

void unknown_component(const std::string& kind, const std::string& type, const std::vector<std::string>& known,
                       const std::string& where) {
  fail("{}: unknown {} {}{} Known are: {}", where, kind, transom::quoted(type), did_you_mean(type, known),
       fmt::join(known, ", "));
}

void append_special(Encoding& encoding, int64_t id, const std::string& token, int64_t type_id) {
  encoding.ids.push_back(id);
  encoding.type_ids.push_back(type_id);
  encoding.attention_mask.push_back(1);
  encoding.special_tokens_mask.push_back(1);
  encoding.offsets.emplace_back(0, 0);
  encoding.tokens.push_back(token);
  encoding.word_ids.push_back(-1);
  encoding.sequence_ids.push_back(-1);
}

void append_sequence(Encoding& encoding, const Encoding& from, int64_t type_id, int64_t sequence) {
  const size_t count = from.size();
  encoding.ids.insert(encoding.ids.end(), from.ids.begin(), from.ids.end());
  encoding.type_ids.insert(encoding.type_ids.end(), count, type_id);
  encoding.attention_mask.insert(encoding.attention_mask.end(), count, 1);
  encoding.special_tokens_mask.insert(encoding.special_tokens_mask.end(), from.special_tokens_mask.begin(),
                                      from.special_tokens_mask.end());
  encoding.offsets.insert(encoding.offsets.end(), from.offsets.begin(), from.offsets.end());
  encoding.tokens.insert(encoding.tokens.end(), from.tokens.begin(), from.tokens.end());
  encoding.word_ids.insert(encoding.word_ids.end(), from.word_ids.begin(), from.word_ids.end());
  encoding.sequence_ids.insert(encoding.sequence_ids.end(), count, sequence);
}

}  // namespace transom::text
