// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/slow_tokenizers/language_classes.h"

#include "inputs/text/components/fields.h"
#include "inputs/text/slow_tokenizers/tokenizer_class_components.h"
#include "inputs/text/slow_tokenizers/tokenizer_class_options.h"

namespace transom::text {
namespace {

Json word_marks() {
  return {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}, {"split", true}};
}

// The character map of the file's normalizer; null: it has none.
Json character_map(const Json& normalizer, int depth = 0) {
  if (!normalizer.is_object() || depth > kMaximumComponentDepth) return {};
  if (normalizer.value("type", Json()) == "Precompiled") return normalizer;
  const auto parts = normalizer.find("normalizers");
  if (parts == normalizer.end() || !parts->is_array()) return {};
  for (const Json& part : *parts)
    if (Json found = character_map(part, depth + 1); !found.is_null()) return found;
  return {};
}

Json normalizers_of(const std::string& name, const Json& own) {
  const Json spaces = {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}};
  const Json map = character_map(own);
  Json steps = Json::array();
  if (!map.is_null()) steps.push_back(map);
  else if (name == "Nllb") return {};
  else if (name == "Pegasus") steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", "\\n"}}}, {"content", " "}});
  steps.push_back(spaces);
  return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

// The ids of what stands around texts, also of tokens that were added to the model's.
Vocabulary ids_of(const std::vector<std::string>& tokens, const TokenizerFile& file, const std::string& where) {
  Vocabulary ids;
  const Json& added = field(*file.rest, "added_tokens", where);
  for (const std::string& text : tokens) {
    int64_t id = file.vocabulary->find(text);
    if (id < 0 && added.is_array())
      for (const Json& token : added)
        if (token.is_object() && token.value("content", Json()) == text) id = integer_field(token, "id", where);
    require(id >= 0 && id <= Vocabulary::kMaximumId, "{}: expected the token {} in the vocabulary", where,
            quoted(text));
    ids.insert(text, id);
  }
  return ids;
}

// Two texts stand apart by two ends, and have one type.
Json around_of_deberta(const Json& config, const TokenizerFile& file, const std::string& where) {
  const auto text_of = [&](const char* role, const char* otherwise) {
    const Json& token = field(config, role, where);
    if (token.is_null()) return std::string(otherwise);
    return token.is_string() ? token.get<std::string>() : string_field(token, "content", where + ": " + role);
  };
  const std::string cls = text_of("cls_token", "[CLS]"), sep = text_of("sep_token", "[SEP]");
  const Vocabulary ids = ids_of({cls, sep}, file, where);
  return {{"type", "RobertaProcessing"},
          {"cls", Json::array({cls, ids.find(cls)})},
          {"sep", Json::array({sep, ids.find(sep)})},
          {"trim_offsets", false},
          {"add_prefix_space", false}};
}

}  // namespace

void apply_language_class(const Json& config, TokenizerFile& file, const std::string& where) {
  Json& tokenizer = *file.rest;
  if (!tokenizer.is_object()) return;
  const std::string name = tokenizer_family(config, "", where);
  if (name == "Deberta") tokenizer["post_processor"] = around_of_deberta(config, file, where);
  const bool mbart = name == "MBart", mbart50 = name == "MBart50", nllb = name == "Nllb", pegasus = name == "Pegasus";
  if (!mbart && !mbart50 && !nllb && !pegasus) return;
  const Json own = field(tokenizer, "normalizer", where);
  tokenizer["normalizer"] = mbart ? Json() : normalizers_of(name, own);
  tokenizer["pre_tokenizer"] = word_marks();
  if (mbart)
    tokenizer["pre_tokenizer"] = {{"type", "Sequence"},
                                  {"pretokenizers", Json::array({Json{{"type", "WhitespaceSplit"}}, word_marks()})}};
  tokenizer["decoder"] = word_marks();
  const Json& given = field(config, "eos_token", where);
  const std::string eos = given.is_null()     ? "</s>"
                          : given.is_string() ? given.get<std::string>()
                                              : string_field(given, "content", where + ": eos_token");
  if (pegasus) {
    tokenizer["post_processor"] = template_of({}, {eos}, false, ids_of({eos}, file, where), where);
    return;
  }
  const std::string language = string_field(config, "src_lang", where, nllb ? "eng_Latn" : "en_XX");
  const bool behind = mbart || (nllb && bool_field(config, "legacy_behaviour", where, false));
  const Vocabulary ids = ids_of({eos, language}, file, where);
  tokenizer["post_processor"] =
      behind ? template_of({}, {eos, language}, false, ids, where) : template_of({language}, {eos}, false, ids, where);
}

}  // namespace transom::text
