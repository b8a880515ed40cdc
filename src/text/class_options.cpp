// SPDX-License-Identifier: Apache-2.0
#include "text/class_options.h"

#include <algorithm>
#include <span>

#include "text/fields.h"

namespace transom::text {
namespace {

// "BertTokenizerFast" as "Bert".
std::string family(const Json& config, const std::string& where) {
  std::string name = string_field(config, "tokenizer_class", where, "");
  for (const std::string_view suffix : {"Fast", "Tokenizer"})
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  return name;
}

bool among(const std::string& name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::string_view kBertFamilies[] = {
    "Bert",      "DistilBert",  "Electra",  "MobileBert",        "MPNet",
    "ConvBert",  "SqueezeBert", "Funnel",   "LayoutLM",          "LayoutLMv2",
    "Lxmert",    "RetriBert",   "Splinter", "DPRContextEncoder", "DPRQuestionEncoder",
    "DPRReader", "Realm"};
constexpr std::string_view kByteLevelFamilies[] = {"",        "Roberta",    "GPT2", "GPTNeoX", "Whisper",
                                                   "Bart",    "Longformer", "LED",  "MVP",     "Blenderbot",
                                                   "CodeGen", "Deberta",    "Bloom"};

// Sets a field of a component and of the components in it that are of one of `types`.
void set_field(Json& component, std::span<const std::string_view> types, const char* key, const Json& value,
               int depth = 0) {
  if (!component.is_object() || depth >= kMaximumComponentDepth) return;
  const auto type = component.find("type");
  if (type != component.end() && type->is_string() && among(type->get<std::string>(), types)) component[key] = value;
  for (const char* list : {"pretokenizers", "processors"}) {
    if (!component.contains(list) || !component[list].is_array()) continue;
    for (Json& part : component[list]) set_field(part, types, key, value, depth + 1);
  }
}

}  // namespace

void apply_class_options(const Json& config, Json& tokenizer, const std::string& where) {
  if (!tokenizer.is_object()) return;
  const std::string name = family(config, where);
  if (among(name, kBertFamilies) && tokenizer.contains("normalizer")) {
    Json& normalizer = tokenizer["normalizer"];
    if (normalizer.is_object() && normalizer.value("type", Json()) == "BertNormalizer") {
      normalizer["lowercase"] = bool_field(config, "do_lower_case", where, true);
      normalizer["handle_chinese_chars"] = bool_field(config, "tokenize_chinese_chars", where, true);
      const Json& strip = field(config, "strip_accents", where);
      normalizer["strip_accents"] = strip.is_null() ? Json() : Json(bool_field(config, "strip_accents", where, true));
    }
  }
  const Json& prefix_space = field(config, "add_prefix_space", where);
  if (prefix_space.is_null() || !among(name, kByteLevelFamilies)) return;
  constexpr std::string_view kPreTokenizers[] = {"ByteLevel"};
  constexpr std::string_view kPostProcessors[] = {"ByteLevel", "RobertaProcessing"};
  const bool prefix = bool_field(config, "add_prefix_space", where, false);
  if (tokenizer.contains("pre_tokenizer"))
    set_field(tokenizer["pre_tokenizer"], kPreTokenizers, "add_prefix_space", prefix);
  if (tokenizer.contains("post_processor"))
    set_field(tokenizer["post_processor"], kPostProcessors, "add_prefix_space", prefix);
}

void name_special_tokens(Json& config, const std::string& where) {
  using Names = std::initializer_list<std::pair<const char*, const char*>>;
  const Names bert = {{"pad_token", "[PAD]"},
                      {"unk_token", "[UNK]"},
                      {"cls_token", "[CLS]"},
                      {"sep_token", "[SEP]"},
                      {"mask_token", "[MASK]"}};
  const Names mpnet = {{"pad_token", "<pad>"},   {"unk_token", "[UNK]"}, {"cls_token", "<s>"}, {"sep_token", "</s>"},
                       {"mask_token", "<mask>"}, {"bos_token", "<s>"},   {"eos_token", "</s>"}};
  for (const auto& [key, text] : family(config, where) == "MPNet" ? mpnet : bert) {
    const Json& named = field(config, key, where);
    if (named.is_object()) config[key] = string_field(named, "content", where + "." + key);
    else if (named.is_null()) config[key] = text;
    else config[key] = string_field(config, key, where);
  }
}

}  // namespace transom::text
