// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/slow_tokenizers/tokenizer_class_options.h"

#include <algorithm>
#include <span>

#include "files/family/family.h"
#include "inputs/text/components/fields.h"

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

constexpr const char* kWordMark = "\u2581";

// Whether words begin with a mark, by a component or by a normalizer that writes it: the form of SentencePiece.
bool marks_words(const Json& tokenizer) {
  const auto type_in = [&](const char* key) {
    const auto found = tokenizer.find(key);
    return found != tokenizer.end() && found->is_object() ? found->value("type", "") : std::string();
  };
  if (type_in("pre_tokenizer") == "Metaspace") return true;
  if (type_in("normalizer") != "Sequence" || !tokenizer["normalizer"].contains("normalizers")) return false;
  for (const Json& part : tokenizer["normalizer"]["normalizers"])
    if (part.is_object() && part.value("type", "") == "Prepend") return true;
  return false;
}

}  // namespace

// Transformers makes a LlamaTokenizer of vocabulary and merges alone: `legacy` and add_prefix_space say where words get
// their mark, whatever tokenizer.json has.
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
  if (name == "Llama" && marks_words(tokenizer)) {
    const bool prefix = prefix_space.is_null() || bool_field(config, "add_prefix_space", where, true);
    const char* scheme = !prefix ? "never" : bool_field(config, "legacy", where, false) ? "always" : "first";
    tokenizer["normalizer"] = nullptr;
    tokenizer["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", kWordMark}, {"prepend_scheme", scheme}, {"split", false}};
    Json decoders = Json::array({Json{{"type", "Replace"}, {"pattern", {{"String", kWordMark}}}, {"content", " "}},
                                 Json{{"type", "ByteFallback"}}, Json{{"type", "Fuse"}}});
    if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    tokenizer["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
  }
  if (prefix_space.is_null() || !among(name, kByteLevelFamilies)) return;
  constexpr std::string_view kPreTokenizers[] = {"ByteLevel"};
  constexpr std::string_view kPostProcessors[] = {"ByteLevel", "RobertaProcessing"};
  const bool prefix = bool_field(config, "add_prefix_space", where, false);
  if (tokenizer.contains("pre_tokenizer"))
    set_field(tokenizer["pre_tokenizer"], kPreTokenizers, "add_prefix_space", prefix);
  if (tokenizer.contains("post_processor"))
    set_field(tokenizer["post_processor"], kPostProcessors, "add_prefix_space", prefix);
}

std::string tokenizer_family(const Json& config, const std::string& model_type, const std::string& where) {
  std::string name = family(config, where);
  if (name == "PreTrained" || name == "Tokenizers" || name == "TokenizersBackend") name.clear();
  if (!name.empty()) {
    if (name.ends_with("Roberta") && name.starts_with("XLM")) return "XLMRoberta";
    if (name == "Wav2Vec2CTC" || name == "Wav2Vec2") return "Wav2Vec2CTC";
    return name;
  }
  const Family* known = find_family(model_type);
  return known ? *known->processors.tokenizer : "";
}

void name_special_tokens(const std::string& family, Json& config) {
  using Names = std::initializer_list<std::pair<const char*, const char*>>;
  const auto name = [&](const Names& names) {
    for (const auto& [key, text] : names)
      if (!config.contains(key)) config[key] = text;
  };
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), family) != names.end();
  };
  const Names fairseq = {{"bos_token", "<s>"},   {"eos_token", "</s>"},  {"sep_token", "</s>"},   {"cls_token", "<s>"},
                         {"unk_token", "<unk>"}, {"pad_token", "<pad>"}, {"mask_token", "<mask>"}};
  const Json stripping_mask = {{"content", "<mask>"}, {"lstrip", true}, {"special", true}, {"normalized", false}};
  if (is({"Camembert", "MBart"}) && !config.contains("mask_token")) config["mask_token"] = stripping_mask;
  if (is({"Roberta", "Bart", "Longformer", "LED", "XLMRoberta", "Camembert", "MBart"})) name(fairseq);
  else if (is({"GPT2", "Whisper", "GPTNeoX"}))
    name({{"bos_token", "<|endoftext|>"}, {"eos_token", "<|endoftext|>"}, {"unk_token", "<|endoftext|>"}});
  else if (is({"Qwen2"}))
    name({{"eos_token", "<|endoftext|>"}, {"unk_token", "<|endoftext|>"}, {"pad_token", "<|endoftext|>"}});
  else if (is({"Esm"}))
    name({{"unk_token", "<unk>"},
          {"cls_token", "<cls>"},
          {"pad_token", "<pad>"},
          {"mask_token", "<mask>"},
          {"eos_token", "<eos>"}});
  else if (is({"CLIP"}))
    name({{"bos_token", "<|startoftext|>"},
          {"eos_token", "<|endoftext|>"},
          {"unk_token", "<|endoftext|>"},
          {"pad_token", "<|endoftext|>"}});
  else if (is({"T5", "Marian"})) name({{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}});
  else if (is({"Llama"})) name({{"unk_token", "<unk>"}, {"bos_token", "<s>"}, {"eos_token", "</s>"}});
  else if (is({"Gemma"}))
    name({{"unk_token", "<unk>"},
          {"bos_token", "<bos>"},
          {"eos_token", "<eos>"},
          {"pad_token", "<pad>"},
          {"mask_token", "<mask>"}});
  else if (is({"Wav2Vec2CTC"}))
    name({{"bos_token", "<s>"},
          {"eos_token", "</s>"},
          {"unk_token", "<unk>"},
          {"pad_token", "<pad>"},
          {"word_delimiter_token", "|"}});
  else if (is({"Vits"})) name({{"pad_token", "<pad>"}, {"unk_token", "<unk>"}});
  else if (is({"SpeechT5"}))
    name({{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}});
  else if (is({"Albert"}))
    name({{"bos_token", "[CLS]"},
          {"eos_token", "[SEP]"},
          {"unk_token", "<unk>"},
          {"sep_token", "[SEP]"},
          {"pad_token", "<pad>"},
          {"cls_token", "[CLS]"},
          {"mask_token", "[MASK]"}});
  else if (is({"DebertaV2", "Deberta"}))
    name({{"bos_token", "[CLS]"},
          {"eos_token", "[SEP]"},
          {"unk_token", "[UNK]"},
          {"sep_token", "[SEP]"},
          {"pad_token", "[PAD]"},
          {"cls_token", "[CLS]"},
          {"mask_token", "[MASK]"}});
}

void name_bert_tokens(Json& config, const std::string& where) {
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
