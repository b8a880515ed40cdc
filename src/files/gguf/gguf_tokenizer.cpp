// SPDX-License-Identifier: Apache-2.0
// tokenizer.json and tokenizer_config.json from the vocabulary in a GGUF file: byte-level BPE ("gpt2"), SentencePiece
// BPE with scores ("llama"), WordPiece ("bert"), Unigram ("t5").
#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "base/text/base64.h"
#include "files/gguf/gguf_model.h"
#include "files/gguf/gguf_pre_tokenizers.h"
#include "files/gguf/gguf_special_tokens.h"

namespace transom {
namespace {

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
    if (types.empty()) types.assign(tokens.size(), GgufTokenType::kNormal);
    if (types.size() != tokens.size() || (!scores.empty() && scores.size() != tokens.size()))
      fail("{}: tokenizer.ggml: expected as many types and scores as the {} tokens, found {} and {}", file.where(),
           tokens.size(), types.size(), scores.size());
    ids.reserve(tokens.size());
    repeats.reserve(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i)
      repeats.push_back(!ids.emplace(tokens[i], static_cast<int64_t>(i)).second);
  }
};

// The token of a role ("bos"); nothing where the file names none.
std::optional<std::string> token_of(const GgufFile& file, const Vocabulary& vocabulary, const std::string& role) {
  const std::optional<int64_t> id = gguf_special_id(file, role);
  return id ? std::optional(vocabulary.tokens[static_cast<size_t>(*id)]) : std::nullopt;
}

// The token of a role that is put before or behind texts; nothing where `key` says that none is.
std::optional<std::string> added_token_of(const GgufFile& file, const Vocabulary& vocabulary, const std::string& role,
                                          bool otherwise) {
  const std::string key = "tokenizer.ggml.add_" + role + "_token";
  if (!file.get_bool(key, otherwise)) return std::nullopt;
  auto token = token_of(file, vocabulary, role);
  if (!token && file.has(key))
    fail("{}: {} is true, but there is no tokenizer.ggml.{}_token_id that is a token", file.where(), key, role);
  return token;
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
    if (type != GgufTokenType::kControl && type != GgufTokenType::kUserDefined && type != GgufTokenType::kUnknown)
      continue;
    if (vocabulary.tokens[i].empty()) continue;
    list.push_back({{"id", i},
                    {"content", vocabulary.tokens[i]},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", type != GgufTokenType::kUserDefined}});
  }
  return list;
}

// [bos] A [eos], and of a pair behind it [between] B [eos], as far as they are added.
Json template_processing(const std::optional<std::string>& bos, const std::optional<std::string>& between,
                         const std::optional<std::string>& eos, const Vocabulary& vocabulary) {
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
  token(pair, between, 1), sequence(pair, "B", 1), token(pair, eos, 1);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", use_regex}};
}
Json sequence_of(const char* key, std::initializer_list<Json> parts) {
  return {{"type", "Sequence"}, {key, Json(std::vector<Json>(parts))}};
}

Json byte_pairs(const GgufFile& file, const Vocabulary& vocabulary) {
  const bool named = file.has("tokenizer.ggml.pre");
  if (!named)
    log(LogLevel::kWarning, fmt::format("{}: tokenizer.ggml.pre is missing: text is cut as llama.cpp's 'default' does, "
                                        "which may not be the model's way; convert the model again",
                                        file.where()));
  const std::string name =
      file.get_string("tokenizer.ggml.model") == "gemma4" ? "gemma4" : file.get_string("tokenizer.ggml.pre", "default");
  const GgufPreTokenizer& kind = gguf_pre_tokenizer(name, file.where());
  if (!file.has("tokenizer.ggml.merges") && name != "kimi-k2")
    fail("{}: tokenizer.ggml.merges: expected this key of a vocabulary of byte pairs, found none", file.where());
  Json json{{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  json["added_tokens"] = added_tokens(vocabulary);
  const Json spaces{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}};
  json["normalizer"] = kind.raw ? spaces : kind.composes ? Json{{"type", "NFC"}} : Json(nullptr);
  json["pre_tokenizer"] = gguf_pre_tokenizer_json(kind);
  const auto bos = added_token_of(file, vocabulary, "bos", kind.adds_bos),
             eos = added_token_of(file, vocabulary, "eos", false);
  const bool separates = file.get_bool("tokenizer.ggml.add_sep_token", kind.separates);
  json["post_processor"] =
      bos || eos ? template_processing(bos, separates ? eos : bos, eos, vocabulary) : byte_level(true);
  json["decoder"] =
      kind.raw
          ? sequence_of("decoders", {Json{{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}},
                                     Json{{"type", "ByteFallback"}}, Json{{"type", "Fuse"}}})
          : byte_level(true);
  json["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", kind.raw},
                   {"ignore_merges", kind.ignores_merges},
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
    if (vocabulary.types[i] == GgufTokenType::kNormal || vocabulary.types[i] == GgufTokenType::kUserDefined)
      order.push_back(i);
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
  const auto bos = added_token_of(file, vocabulary, "bos", true), eos = added_token_of(file, vocabulary, "eos", false);
  json["post_processor"] = template_processing(bos, bos, eos, vocabulary);
  Json decoders = Json::array({Json{{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}},
                               Json{{"type", "ByteFallback"}}, Json{{"type", "Fuse"}}});
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  json["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
  std::optional<std::string> unknown = token_of(file, vocabulary, "unknown");
  bool bytes = false;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (!unknown && vocabulary.types[i] == GgufTokenType::kUnknown) unknown = vocabulary.tokens[i];
    bytes |= vocabulary.types[i] == GgufTokenType::kByte;
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
    else if (vocabulary.types[i] == GgufTokenType::kNormal) text += "##" + token;
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
  while (count > 0 && vocabulary.types[count - 1] == GgufTokenType::kUnused) --count;
  Json pieces = Json::array();
  for (size_t i = 0; i < count; ++i) {
    const bool has_score =
        vocabulary.types[i] == GgufTokenType::kNormal || vocabulary.types[i] == GgufTokenType::kUnused;
    const double score = vocabulary.scores.empty() || !has_score ? 0.0 : vocabulary.scores[i];
    pieces.push_back(Json::array({vocabulary.tokens[i], score}));
  }
  const int64_t unknown = gguf_special_id(file, "unknown").value_or(0);
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
  const auto bos = added_token_of(file, vocabulary, "bos", false), eos = added_token_of(file, vocabulary, "eos", true);
  json["post_processor"] = template_processing(bos, bos, eos, vocabulary);
  json["model"] = {{"type", "Unigram"}, {"unk_id", unknown}, {"vocab", std::move(pieces)}, {"byte_fallback", false}};
  return json;
}

// Not stored: a vocabulary without capitals is one of lower-cased text.
bool has_capitals(const Vocabulary& vocabulary) {
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i)
    if (vocabulary.types[i] == GgufTokenType::kNormal &&
        std::any_of(vocabulary.tokens[i].begin(), vocabulary.tokens[i].end(),
                    [](char c) { return 'A' <= c && c <= 'Z'; }))
      return true;
  return false;
}

}  // namespace

void add_gguf_tokenizer(const GgufFile& file, ContainerParts& parts) {
  const std::string model = file.get_string("tokenizer.ggml.model", "none");
  if (model == "none" || model == "no_vocab") return;
  const Vocabulary vocabulary(file);
  if (vocabulary.tokens.empty()) return;
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
  if (model == "gpt2" || model == "gemma4") {
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
    config["do_lower_case"] = file.get_bool("tokenizer.ggml.normalizer.lowercase", !has_capitals(vocabulary));
    if (const char* key = "tokenizer.ggml.normalizer.strip_accents"; file.has(key))
      config["strip_accents"] = file.get_bool(key, false);
    if (const auto token = token_of(file, vocabulary, "seperator")) config["sep_token"] = *token;  // spelt so
    if (const auto token = token_of(file, vocabulary, "cls")) config["cls_token"] = *token;
    parts["vocab.txt"] = word_pieces(vocabulary);
  } else {
    fail(ErrorKind::kUnsupported,
         "{}: tokenizer.ggml.model {} is not supported. Known are: gpt2, llama, bert, t5, gemma4, none", file.where(),
         quoted(model));
  }
  parts["tokenizer_config.json"] = dump_json(config, 2) + "\n";
}

}  // namespace transom
