// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/slow_tokenizers/tokenizer_class_components.h"

#include <algorithm>

#include "inputs/text/components/fields.h"

namespace transom::text {
namespace {

// A token is a text, or an object with "content".
std::string content_of(const Json& token, const std::string& where) {
  return token.is_string() ? token.get<std::string>() : string_field(token, "content", where);
}

int64_t id_of(const std::string& token, const Vocabulary& vocabulary, const std::string& where) {
  const int64_t id = vocabulary.find(token);
  require(id >= 0, "{}: expected the token {} in it", where, quoted(token));
  return id;
}

class TemplateMaker {
 public:
  TemplateMaker(const Vocabulary& vocabulary, const std::string& where) : vocabulary_(vocabulary), where_(where) {}
  void special(Json& items, const std::string& token, int type) {
    items.push_back({{"SpecialToken", {{"id", token}, {"type_id", type}}}});
    special_[token] = {
        {"id", token}, {"ids", Json::array({id_of(token, vocabulary_, where_)})}, {"tokens", Json::array({token})}};
  }
  static void sequence(Json& items, const char* id, int type) {
    items.push_back({{"Sequence", {{"id", id}, {"type_id", type}}}});
  }
  Json made(Json single, Json pair) {
    return {{"type", "TemplateProcessing"},
            {"single", std::move(single)},
            {"pair", std::move(pair)},
            {"special_tokens", special_}};
  }

 private:
  const Vocabulary& vocabulary_;
  const std::string& where_;
  Json special_ = Json::object();
};

}  // namespace

Json pair_of(const std::string& role, const Json& config, const Vocabulary& vocabulary, const std::string& where) {
  const std::string token = content_of(field(config, role, where), where + ": " + role);
  return Json::array({token, id_of(token, vocabulary, where)});
}

Json template_of(const std::vector<std::string>& before, const std::vector<std::string>& after, bool twice,
                 const Vocabulary& vocabulary, const std::string& where) {
  TemplateMaker maker(vocabulary, where);
  Json single = Json::array();
  for (const std::string& token : before) maker.special(single, token, 0);
  maker.sequence(single, "A", 0);
  Json pair = single;
  for (const std::string& token : after) maker.special(single, token, 0);
  if (twice) pair = single;
  maker.sequence(pair, "B", 0);
  for (const std::string& token : after) maker.special(pair, token, 0);
  return maker.made(std::move(single), std::move(pair));
}

Json begin_and_end(const Json& config, const Vocabulary& vocabulary, const std::string& where) {
  TemplateMaker maker(vocabulary, where);
  const auto wanted = [&](const char* option, const char* role) {
    const Json& token = field(config, role, where);
    return bool_field(config, option, where, false) && !token.is_null() ? content_of(token, where) : std::string();
  };
  const std::string bos = wanted("add_bos_token", "bos_token"), eos = wanted("add_eos_token", "eos_token");
  const auto around = [&](Json& items, const char* sequence, int type) {
    if (!bos.empty()) maker.special(items, bos, type);
    maker.sequence(items, sequence, type);
    if (!eos.empty()) maker.special(items, eos, type);
  };
  Json single = Json::array();
  around(single, "A", 0);
  Json pair = single;
  around(pair, "B", 1);
  return maker.made(std::move(single), std::move(pair));
}

Json named_tokens(const Json& config, const Vocabulary& vocabulary, const std::string& where) {
  Json result = Json::array();
  int64_t next = vocabulary.size();
  std::vector<std::string> seen;
  const auto add = [&](const Json& token, bool special, int64_t id) {
    if (token.is_null()) return;
    const std::string content = content_of(token, where);
    if (content.empty() || std::find(seen.begin(), seen.end(), content) != seen.end()) return;
    seen.push_back(content);
    if (id < 0) id = vocabulary.find(content);
    if (id < 0) id = next;
    next = std::max(next, id + 1);
    Json item = {{"id", id}, {"content", content}, {"special", special}, {"normalized", !special}};
    for (const char* flag : {"lstrip", "rstrip", "single_word", "normalized"}) {
      const Json& value = token.is_object() ? field(token, flag, where) : Json();
      if (value.is_boolean()) item[flag] = value;
    }
    result.push_back(std::move(item));
  };
  if (const Json& tokens = field(config, "added_tokens_decoder", where); tokens.is_object() && !tokens.empty()) {
    for (const auto& [key, token] : tokens.items()) {
      int64_t id = 0;
      for (const char digit : key) {
        require(digit >= '0' && digit <= '9' && id < Vocabulary::kMaximumId,
                "{}: added_tokens_decoder: expected an id, found {}", where, quoted(key));
        id = id * 10 + (digit - '0');
      }
      add(token, bool_field(token, "special", where, false), id);
    }
  }
  const Json& added = field(config, "added_tokens.json", where);
  const auto special = [&](const std::string& content) {
    for (const auto& [key, value] : config.items())
      if (key.ends_with("_token") && !value.is_boolean() && !value.is_null() && content_of(value, where) == content)
        return true;
    return false;
  };
  if (added.is_object()) {
    for (const auto& [content, id] : added.items()) {
      require(id.is_number_integer(), "added_tokens.json: {}: expected an id, found {}", quoted(content),
              id.type_name());
      add(content, special(content), id.get<int64_t>());
    }
  }
  for (const char* role : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
    add(field(config, role, where), true, -1);
  for (const char* list : {"extra_special_tokens", "additional_special_tokens"}) {
    const Json& tokens = field(config, list, where);
    if (!tokens.is_array()) continue;
    for (const Json& token : tokens) {
      const bool marked = token.is_object() && token.contains("special");
      add(token, marked ? bool_field(token, "special", where, true) : true, -1);
    }
  }
  return result;
}

}  // namespace transom::text
