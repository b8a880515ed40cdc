// SPDX-License-Identifier: Apache-2.0
// tokenizer.json and tokenizer_config.json from the vocabulary in a GGUF file: byte-level BPE ("gpt2"), SentencePiece
// BPE with scores ("llama"), WordPiece ("bert"), Unigram ("t5").
#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/error.h"
#include "base/json/json.h"
#include "base/text/base64.h"
#include "io/gguf/gguf_model.h"

namespace transom {
namespace {

enum TokenType : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
constexpr const char* kSpace = "\u2581";

struct Vocabulary {
  const std::vector<std::string>& tokens;
  std::vector<int64_t> types;
  std::vector<double> scores;
  std::unordered_map<std::string_view, int64_t> ids;  // of equal tokens, the first
  std::vector<bool> repeats;                          // a token before it

  explicit Vocabulary(const GgufFile& file) : tokens(file.get_strings("tokenizer.ggml.tokens")) {
    types = file.get_ints("tokenizer.ggml.token_type");
    scores = file.get_floats("tokenizer.ggml.scores");
    if (types.empty()) types.assign(tokens.size(), kNormal);
    if (types.size() != tokens.size() || (!scores.empty() && scores.size() != tokens.size()))
      fail("{}: tokenizer.ggml: expected as many types and scores as the {} tokens, found {} and {}", file.where(),
           tokens.size(), types.size(), scores.size());
    ids.reserve(tokens.size());
    repeats.reserve(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i)
      repeats.push_back(!ids.emplace(tokens[i], static_cast<int64_t>(i)).second);
  }
};

// The token of a role ("bos"), by its id; nothing where the file names none.
std::optional<std::string> token_of(const GgufFile& file, const Vocabulary& vocabulary, const std::string& role) {
  const std::string key = "tokenizer.ggml." + role + "_token_id";
  if (!file.has(key)) return std::nullopt;
  const int64_t id = file.get_int(key);
  if (id < 0 || id >= static_cast<int64_t>(vocabulary.tokens.size()))
    fail("{}: key {}: {} is no token of {}", file.where(), quoted(key), id, vocabulary.tokens.size());
  return vocabulary.tokens[static_cast<size_t>(id)];
}

Json vocabulary_json(const Vocabulary& vocabulary) {
  // An object looks for each key among all before it: the first of equal tokens is known without.
  Json::object_t object;
  object.reserve(vocabulary.tokens.size());
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i)
    if (!vocabulary.repeats[i]) object.emplace_back(vocabulary.tokens[i], i);
  return object;
}

Json added_tokens(const Vocabulary& vocabulary) {
  Json list = Json::array();
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const int64_t type = vocabulary.types[i];
    if (type != kControl && type != kUserDefined && type != kUnknown) continue;
    if (vocabulary.tokens[i].empty()) continue;
    list.push_back({{"id", i},
                    {"content", vocabulary.tokens[i]},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", type != kUserDefined}});
  }
  return list;
}

// [bos] A [eos], as far as they are added.
Json template_processing(const std::optional<std::string>& bos, const std::optional<std::string>& eos,
                         const Vocabulary& vocabulary) {
  Json single = Json::array(), pair = Json::array(), special = Json::object();
  const auto token = [&](Json& items, const std::optional<std::string>& text, int type) {
    if (!text) return;
    items.push_back({{"SpecialToken", {{"id", *text}, {"type_id", type}}}});
    special[*text] = {
        {"id", *text}, {"ids", Json::array({vocabulary.ids.at(*text)})}, {"tokens", Json::array({*text})}};
  };
  const auto sequence = [](Json& items, const char* name, int type) {
    items.push_back({{"Sequence", {{"id", name}, {"type_id", type}}}});
  };
  token(single, bos, 0), sequence(single, "A", 0), token(single, eos, 0);
  pair = single;
  token(pair, bos, 1), sequence(pair, "B", 1), token(pair, eos, 1);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

Json split_by(const char* pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}
Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", use_regex}};
}
Json sequence_of(const char* key, std::initializer_list<Json> parts) {
  return {{"type", "Sequence"}, {key, Json(std::vector<Json>(parts))}};
}

// How text is cut before merging, by the names of llama.cpp (src/llama-vocab.cpp).
Json pre_tokenizer(const std::string& name) {
  constexpr const char* kLlama3 =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  constexpr const char* kQwen2 =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  constexpr const char* kTekken =
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  constexpr const char* kGpt4o =
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  constexpr const char* kBloom = R"( ?[^(\s|[.,!?…。，、।۔،])]+)";
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const auto by_pattern = [](const char* pattern) {
    return sequence_of("pretokenizers", {split_by(pattern), byte_level(false)});
  };
  if (is({"llama-bpe", "llama3", "llama-v3", "smaug-bpe", "falcon3", "dbrx"})) return by_pattern(kLlama3);
  if (is({"qwen2", "stablelm2", "deepseek-r1-qwen", "megrez", "hunyuan"})) return by_pattern(kQwen2);
  if (is({"bloom", "poro-chat", "gpt3-finnish"})) return by_pattern(kBloom);
  if (is({"tekken"})) return by_pattern(kTekken);
  if (is({"gpt-4o", "llama4"})) return by_pattern(kGpt4o);
  if (is({"starcoder", "refact", "smollm", "codeshell", "command-r", "exaone", "minerva-7b"}))
    return sequence_of("pretokenizers", {Json{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)});
  return byte_level(true);  // gpt-2, and what is named nowhere
}

Json byte_pairs(const GgufFile& file, const Vocabulary& vocabulary) {
  const std::string pre = file.get_string("tokenizer.ggml.pre", "gpt-2");
  Json json{{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  json["added_tokens"] = added_tokens(vocabulary);
  json["normalizer"] = pre == "qwen2" || pre == "deepseek-r1-qwen" ? Json{{"type", "NFC"}} : Json(nullptr);
  json["pre_tokenizer"] = pre_tokenizer(pre);
  const auto when = [&](const char* role, const char* key) {
    return file.get_bool(key, false) ? token_of(file, vocabulary, role) : std::nullopt;
  };
  const auto bos = when("bos", "tokenizer.ggml.add_bos_token"), eos = when("eos", "tokenizer.ggml.add_eos_token");
  json["post_processor"] = bos || eos ? template_processing(bos, eos, vocabulary) : byte_level(true);
  json["decoder"] = byte_level(true);
  json["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"ignore_merges", pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3" || pre == "tekken"},
                   {"vocab", vocabulary_json(vocabulary)},
                   {"merges", file.get_strings("tokenizer.ggml.merges")}};
  return json;
}

size_t bytes_of_character(unsigned char lead) { return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; }

// SentencePiece joins the neighbours whose joined piece has the highest score: as merges, each piece by its score, each
// of its halves that are pieces.
Json merges_of_scores(const Vocabulary& vocabulary) {
  std::vector<size_t> order;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i)
    if (vocabulary.types[i] == kNormal || vocabulary.types[i] == kUserDefined) order.push_back(i);
  if (!vocabulary.scores.empty())
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return vocabulary.scores[a] > vocabulary.scores[b]; });
  Json merges = Json::array();
  for (const size_t id : order) {
    const std::string_view piece = vocabulary.tokens[id];
    std::vector<std::array<int64_t, 2>> halves;
    for (size_t i = 0; i < piece.size();) {
      i += bytes_of_character(static_cast<unsigned char>(piece[i]));
      if (i >= piece.size()) break;
      const auto left = vocabulary.ids.find(piece.substr(0, i)), right = vocabulary.ids.find(piece.substr(i));
      if (left != vocabulary.ids.end() && right != vocabulary.ids.end())
        halves.push_back({left->second, right->second});
    }
    std::sort(halves.begin(), halves.end());
    for (const auto& [left, right] : halves)
      merges.push_back(
          Json::array({vocabulary.tokens[static_cast<size_t>(left)], vocabulary.tokens[static_cast<size_t>(right)]}));
  }
  return merges;
}

Json sentence_pieces(const GgufFile& file, const Vocabulary& vocabulary) {
  const bool prefix = file.get_bool("tokenizer.ggml.add_space_prefix", true);
  Json json{{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  json["added_tokens"] = added_tokens(vocabulary);
  const Json spaces{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}};
  json["normalizer"] =
      prefix ? sequence_of("normalizers", {Json{{"type", "Prepend"}, {"prepend", kSpace}}, spaces}) : spaces;
  json["pre_tokenizer"] = nullptr;
  const auto when = [&](const char* role, const char* key, bool otherwise) {
    return file.get_bool(key, otherwise) ? token_of(file, vocabulary, role) : std::nullopt;
  };
  json["post_processor"] = template_processing(when("bos", "tokenizer.ggml.add_bos_token", true),
                                               when("eos", "tokenizer.ggml.add_eos_token", false), vocabulary);
  Json decoders = Json::array({Json{{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}},
                               Json{{"type", "ByteFallback"}}, Json{{"type", "Fuse"}}});
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  json["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
  std::optional<std::string> unknown = token_of(file, vocabulary, "unknown");
  bool bytes = false;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (!unknown && vocabulary.types[i] == kUnknown) unknown = vocabulary.tokens[i];
    bytes |= vocabulary.types[i] == kByte;
  }
  json["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", unknown ? Json(*unknown) : Json(nullptr)},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", true},
                   {"byte_fallback", bytes},
                   {"ignore_merges", false},
                   {"vocab", vocabulary_json(vocabulary)},
                   {"merges", merges_of_scores(vocabulary)}};
  return json;
}

// Word starts carry a mark, continuations have lost their ##.
std::string word_pieces(const Vocabulary& vocabulary) {
  std::string text;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string& token = vocabulary.tokens[i];
    if (token.starts_with(kSpace)) text += token.substr(std::char_traits<char>::length(kSpace));
    else if (token.size() > 2 && token.front() == '[' && token.back() == ']') text += token;
    else if (vocabulary.types[i] == kNormal) text += "##" + token;
    else text += token;
    text += '\n';
  }
  return text;
}

// The characters that are replaced before anything else, as SentencePiece compiles them.
Json character_map(const GgufFile& file) {
  const std::vector<int64_t> numbers = file.get_ints("tokenizer.ggml.precompiled_charsmap");
  if (numbers.empty()) return nullptr;
  std::string bytes;
  for (const int64_t number : numbers) {
    if (number < -128 || number > 255)
      fail("{}: key tokenizer.ggml.precompiled_charsmap: expected bytes, found {}", file.where(), number);
    bytes += static_cast<char>(number);
  }
  return {{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(bytes)}};
}

Json unigrams(const GgufFile& file, const Vocabulary& vocabulary) {
  // Padding up to the model's size is no part of a vocabulary: its scores would change those of unknown characters.
  size_t count = vocabulary.tokens.size();
  while (count > 0 && vocabulary.types[count - 1] == kUnused) --count;
  Json pieces = Json::array();
  for (size_t i = 0; i < count; ++i) {
    const bool has_score = vocabulary.types[i] == kNormal || vocabulary.types[i] == kUnused;
    const double score = vocabulary.scores.empty() || !has_score ? 0.0 : vocabulary.scores[i];
    pieces.push_back(Json::array({vocabulary.tokens[i], score}));
  }
  const int64_t unknown = file.get_int("tokenizer.ggml.unknown_token_id", 2);
  const bool prefix = file.get_bool("tokenizer.ggml.add_space_prefix", true);
  Json json{{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  json["added_tokens"] = added_tokens(vocabulary);
  for (Json& added : json["added_tokens"])
    if (added["content"].get<std::string>().starts_with("<extra_id_")) added["special"] = true;
  json["normalizer"] = character_map(file);
  const Json spaces{
      {"type", "Metaspace"}, {"replacement", kSpace}, {"prepend_scheme", prefix ? "always" : "never"}, {"split", true}};
  json["pre_tokenizer"] = file.get_bool("tokenizer.ggml.remove_extra_whitespaces", true)
                              ? sequence_of("pretokenizers", {Json{{"type", "WhitespaceSplit"}}, spaces})
                              : spaces;
  json["decoder"] = spaces;
  const auto when = [&](const char* role, const char* key, bool otherwise) {
    return file.get_bool(key, otherwise) ? token_of(file, vocabulary, role) : std::nullopt;
  };
  json["post_processor"] = template_processing(when("bos", "tokenizer.ggml.add_bos_token", false),
                                               when("eos", "tokenizer.ggml.add_eos_token", true), vocabulary);
  json["model"] = {{"type", "Unigram"}, {"unk_id", unknown}, {"vocab", std::move(pieces)}, {"byte_fallback", false}};
  return json;
}

// Not stored: a vocabulary without capitals is one of lower-cased text.
bool has_capitals(const Vocabulary& vocabulary) {
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i)
    if (vocabulary.types[i] == kNormal && std::any_of(vocabulary.tokens[i].begin(), vocabulary.tokens[i].end(),
                                                      [](char c) { return 'A' <= c && c <= 'Z'; }))
      return true;
  return false;
}

}  // namespace

void add_gguf_tokenizer(const GgufFile& file, ContainerParts& parts) {
  const std::string model = file.get_string("tokenizer.ggml.model", "none");
  const Vocabulary vocabulary(file);
  if (model == "none" || vocabulary.tokens.empty()) return;
  Json config{{"clean_up_tokenization_spaces", false}};
  const std::string architecture = file.get_string("general.architecture", "");
  if (const std::string key = architecture + ".context_length"; file.has(key))
    config["model_max_length"] = file.get_int(key);
  for (const auto& [role, name] : {std::pair{"bos", "bos_token"},
                                   {"eos", "eos_token"},
                                   {"unknown", "unk_token"},
                                   {"padding", "pad_token"},
                                   {"mask", "mask_token"}})
    if (const auto token = token_of(file, vocabulary, role)) config[name] = *token;
  if (file.has("tokenizer.chat_template")) config["chat_template"] = file.get_string("tokenizer.chat_template");
  if (model == "gpt2") {
    config["tokenizer_class"] = "PreTrainedTokenizerFast";
    parts["tokenizer.json"] = dump_json(byte_pairs(file, vocabulary));
  } else if (model == "llama") {
    config["tokenizer_class"] = "PreTrainedTokenizerFast";
    parts["tokenizer.json"] = dump_json(sentence_pieces(file, vocabulary));
  } else if (model == "t5") {
    config["tokenizer_class"] = "PreTrainedTokenizerFast";
    parts["tokenizer.json"] = dump_json(unigrams(file, vocabulary));
  } else if (model == "bert") {
    config["tokenizer_class"] = "BertTokenizer";
    config["do_lower_case"] = !has_capitals(vocabulary);
    if (const auto token = token_of(file, vocabulary, "seperator")) config["sep_token"] = *token;  // spelt so
    if (const auto token = token_of(file, vocabulary, "cls")) config["cls_token"] = *token;
    parts["vocab.txt"] = word_pieces(vocabulary);
  } else {
    return;  // the model can be used with token ids
  }
  parts["tokenizer_config.json"] = dump_json(config, 2) + "\n";
}

}  // namespace transom
