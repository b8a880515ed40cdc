// SPDX-License-Identifier: Apache-2.0
// The vocabulary of tokenizer.json under the keys of GGUF.
#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "base/text/base64.h"
#include "files/gguf/gguf_export.h"
#include "files/gguf/gguf_pre_tokenizers.h"
#include "files/gguf/gguf_special_tokens.h"

namespace transom {
namespace {

// Every part of a pre-tokenizer, decoder or normalizer, those of sequences too.
std::vector<Json> parts_of(const Json& whole) {
  std::vector<Json> parts;
  if (!whole.is_object()) return parts;
  for (const char* list : {"pretokenizers", "normalizers", "decoders"})
    if (whole.contains(list))
      for (const Json& part : whole[list])
        if (part.is_object()) parts.push_back(part);
  if (parts.empty()) parts.push_back(whole);
  return parts;
}
bool has_part(const Json& whole, std::string_view type) {
  for (const Json& part : parts_of(whole))
    if (part.value("type", "") == type) return true;
  return false;
}

// Tokens with their types and scores, by id.
struct ExportedVocabulary {
  std::vector<std::string> tokens;
  std::vector<int64_t> types;
  std::vector<float> scores;
  std::unordered_map<std::string, int64_t> ids;

  void put(int64_t id, const std::string& token, int64_t type) {
    constexpr int64_t kMost = 1 << 24;
    if (id < 0 || id > kMost) fail("tokenizer.json: expected ids up to {}, found {}", kMost, id);
    while (static_cast<int64_t>(tokens.size()) <= id) {
      tokens.push_back(fmt::format("[PAD{}]", tokens.size()));
      types.push_back(GgufTokenType::kUnused), scores.push_back(0);
    }
    tokens[static_cast<size_t>(id)] = token;
    types[static_cast<size_t>(id)] = type;
    ids[token] = id;
  }
};

ExportedVocabulary vocabulary_of(const Json& tokenizer, int64_t size) {
  ExportedVocabulary v;
  const Json& model = tokenizer["model"];
  std::string unknown =
      model.contains("unk_token") && model["unk_token"].is_string() ? model["unk_token"].get<std::string>() : "";
  if (model["vocab"].is_object()) {
    for (const auto& [token, id] : model["vocab"].items()) {
      const bool byte = token.size() == 6 && token.starts_with("<0x") && token.back() == '>';
      v.put(id.get<int64_t>(), token, byte ? GgufTokenType::kByte : GgufTokenType::kNormal);
    }
  } else {  // of Unigram: pieces with their scores, by id
    int64_t id = 0;
    for (const Json& piece : model["vocab"]) {
      if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() || !piece[1].is_number())
        fail("tokenizer.json: model: vocab: expected pairs of a piece and a score");
      v.put(id++, piece[0].get<std::string>(), GgufTokenType::kNormal);
      v.scores.back() = piece[1].get<float>();
    }
    if (const int64_t at =
            model.contains("unk_id") && model["unk_id"].is_number() ? model["unk_id"].get<int64_t>() : -1;
        at >= 0 && at < id) {
      v.types[static_cast<size_t>(at)] = GgufTokenType::kUnknown;
      unknown = v.tokens[static_cast<size_t>(at)];
    }
  }
  if (tokenizer.contains("added_tokens"))
    for (const Json& added : tokenizer["added_tokens"]) {
      const std::string content = added.value("content", "");
      v.put(added.value("id", int64_t{-1}), content,
            content == unknown              ? GgufTokenType::kUnknown
            : added.value("special", false) ? GgufTokenType::kControl
                                            : GgufTokenType::kUserDefined);
    }
  if (const auto last = static_cast<int64_t>(v.tokens.size()); last > size)
    fail("tokenizer.json has {} tokens, more than the model's {} (vocab_size)", last, size);
  if (size > 0 && static_cast<int64_t>(v.tokens.size()) < size) {
    const std::string name = fmt::format("[PAD{}]", size - 1);
    v.put(size - 1, name, GgufTokenType::kUnused);
  }
  return v;
}

std::pair<std::string, std::string> halves_of(const Json& merge) {
  if (merge.is_array() && merge.size() == 2) return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  const auto text = merge.get<std::string>();
  const size_t space = text.find(' ', 1);
  if (space == text.npos) fail("tokenizer.json: merges: expected two pieces, found {}", quoted(text));
  return {text.substr(0, space), text.substr(space + 1)};
}

// The content of a special token, which may be an object.
std::string token_text(const Json& config, const char* name) {
  if (!config.contains(name)) return "";
  if (config[name].is_string()) return config[name].get<std::string>();
  return config[name].is_object() ? config[name].value("content", "") : "";
}

// Whether the post-processor puts this token before (or behind) a text.
bool is_added(const Json& tokenizer, const std::string& token, bool before) {
  Json processors = Json::array();
  const Json post = tokenizer.value("post_processor", Json());
  if (post.is_object() && post.contains("processors")) processors = post["processors"];
  else processors.push_back(post);
  for (const Json& one : processors) {
    if (!one.is_object() || one.value("type", "") != "TemplateProcessing" || !one.contains("single")) continue;
    const Json& single = one["single"];
    if (single.empty()) continue;
    const Json& end = before ? single.front() : single.back();
    if (end.contains("SpecialToken") && end["SpecialToken"].value("id", "") == token) return true;
  }
  return false;
}

[[noreturn]] void refuse_part(const char* key, const Json& part) {
  fail(ErrorKind::kUnsupported, "tokenizer.json: {}: {} cannot be written as GGUF", key,
       quoted(part.is_object() ? part.value("type", "") : part.dump()));
}

// SentencePiece's Unigram.
void add_unigram(GgufWriter& writer, const Json& tokenizer, ExportedVocabulary v) {
  bool prefix = false, joins_spaces = false;
  std::string map;
  for (const Json& part : parts_of(tokenizer.value("normalizer", Json()))) {
    const std::string type = part.value("type", "");
    if (type == "Precompiled") map = from_base64(part.value("precompiled_charsmap", ""), "tokenizer.json: normalizer");
    else if (type == "Replace" || type == "Strip") joins_spaces = true;  // runs of spaces, spaces at the ends
    else refuse_part("normalizer", part);
  }
  for (const Json& part : parts_of(tokenizer.value("pre_tokenizer", Json()))) {
    const std::string type = part.value("type", "");
    if (type == "Metaspace") prefix |= part.value("prepend_scheme", "always") != "never";
    else if (type == "WhitespaceSplit") joins_spaces = true;
    else refuse_part("pre_tokenizer", part);
  }
  for (size_t i = 0; i < v.scores.size(); ++i)
    if (v.types[i] == GgufTokenType::kUserDefined) v.scores[i] = -1000;
    else if (v.types[i] == GgufTokenType::kUnused) v.scores[i] = -10000;
  writer.add_string("tokenizer.ggml.pre", "default");
  writer.add_strings("tokenizer.ggml.tokens", v.tokens);
  writer.add_floats("tokenizer.ggml.scores", v.scores);
  writer.add_ints("tokenizer.ggml.token_type", v.types);
  writer.add_bool("tokenizer.ggml.add_space_prefix", prefix);
  writer.add_bool("tokenizer.ggml.remove_extra_whitespaces", joins_spaces);
  if (!map.empty()) writer.add_bytes("tokenizer.ggml.precompiled_charsmap", map);
}

// BERT's pieces: starts of words get a mark, continuations lose theirs.
void add_word_pieces(GgufWriter& writer, const Json& tokenizer, ExportedVocabulary v) {
  const Json normalizer = tokenizer.value("normalizer", Json());
  if (normalizer.is_object() && normalizer.value("type", "") != "BertNormalizer") refuse_part("normalizer", normalizer);
  const std::string mark = tokenizer["model"].value("continuing_subword_prefix", "##");
  if (mark != "##")
    fail(ErrorKind::kUnsupported, "tokenizer.json: continuing_subword_prefix: expected ##, found {}", mark);
  bool capitals = false;
  for (size_t i = 0; i < v.tokens.size(); ++i) {
    std::string& token = v.tokens[i];
    if (v.types[i] != GgufTokenType::kNormal || (token.starts_with("[") && token.ends_with("]") && token.size() > 2))
      continue;
    capitals |= std::any_of(token.begin(), token.end(), [](char c) { return 'A' <= c && c <= 'Z'; });
    token = token.starts_with("##") && token.size() > 2 ? token.substr(2) : "\u2581" + token;
  }
  if (normalizer.is_object() && normalizer.value("lowercase", true) == capitals)
    log(LogLevel::kWarning,
        fmt::format("tokenizer.json: GGUF does not say whether text is lower-cased; readers take it from the "
                    "vocabulary, which has {}capitals",
                    capitals ? "" : "no "));
  writer.add_string("tokenizer.ggml.pre", "default");
  writer.add_strings("tokenizer.ggml.tokens", v.tokens);
  writer.add_ints("tokenizer.ggml.token_type", v.types);
}

void add_byte_pairs(GgufWriter& writer, const Json& tokenizer, ExportedVocabulary v) {
  const Json& model = tokenizer["model"];
  if (!model.contains("merges") || !model["merges"].is_array()) fail("tokenizer.json: model: expected a list 'merges'");
  const Json& merges = model["merges"];
  if (has_part(tokenizer.value("decoder", Json()), "ByteLevel")) {
    writer.add_string("tokenizer.ggml.pre", gguf_pre_tokenizer_name(tokenizer));
    std::vector<std::string> lines;
    for (const Json& merge : merges) {
      const auto [left, right] = halves_of(merge);
      lines.push_back(left + " " + right);
    }
    writer.add_strings("tokenizer.ggml.tokens", v.tokens);
    writer.add_ints("tokenizer.ggml.token_type", v.types);
    writer.add_strings("tokenizer.ggml.merges", lines);
    return;
  }
  // SentencePiece joins what has the highest score: that of the piece which is joined first is the highest.
  for (size_t i = 0; i < v.scores.size(); ++i)
    v.scores[i] = v.types[i] == GgufTokenType::kNormal ? -static_cast<float>(merges.size() + i) : 0;
  float rank = 0;
  std::vector<bool> known(v.tokens.size());
  for (const Json& merge : merges) {
    const auto [left, right] = halves_of(merge);
    const auto joined = v.ids.find(left + right);
    rank -= 1;
    if (joined == v.ids.end() || known[static_cast<size_t>(joined->second)]) continue;
    known[static_cast<size_t>(joined->second)] = true;
    v.scores[static_cast<size_t>(joined->second)] = rank;
  }
  const Json normalizer = tokenizer.value("normalizer", Json()), pre = tokenizer.value("pre_tokenizer", Json());
  bool prefix = has_part(normalizer, "Prepend");
  for (const Json& part : parts_of(pre))
    if (part.value("type", "") == "Metaspace") prefix |= part.value("prepend_scheme", "always") != "never";
  writer.add_strings("tokenizer.ggml.tokens", v.tokens);
  writer.add_floats("tokenizer.ggml.scores", v.scores);
  writer.add_ints("tokenizer.ggml.token_type", v.types);
  writer.add_bool("tokenizer.ggml.add_space_prefix", prefix);
}

}  // namespace

void add_gguf_vocabulary(GgufWriter& writer, const Json& tokenizer, const Json& config, int64_t size) {
  if (!tokenizer.is_object() || !tokenizer.contains("model") || !tokenizer["model"].is_object())
    fail("tokenizer.json: expected an object with an object 'model'");
  const Json& model = tokenizer["model"];
  const std::string type = model.value("type", "");
  if (type != "BPE" && type != "Unigram" && type != "WordPiece")
    fail(ErrorKind::kUnsupported, "tokenizer.json: BPE, Unigram and WordPiece can be written as GGUF, found {}",
         quoted(type));
  if (!model.contains("vocab") || (type == "Unigram" ? !model["vocab"].is_array() : !model["vocab"].is_object()))
    fail("tokenizer.json: model: expected {} 'vocab'", type == "Unigram" ? "a list" : "an object");
  ExportedVocabulary v = vocabulary_of(tokenizer, size);
  const std::unordered_map<std::string, int64_t> ids = v.ids;
  const bool bytes = has_part(tokenizer.value("decoder", Json()), "ByteLevel");
  writer.add_string("tokenizer.ggml.model", type == "Unigram"     ? "t5"
                                            : type == "WordPiece" ? "bert"
                                            : bytes               ? "gpt2"
                                                                  : "llama");
  if (type == "Unigram") add_unigram(writer, tokenizer, std::move(v));
  else if (type == "WordPiece") add_word_pieces(writer, tokenizer, std::move(v));
  else add_byte_pairs(writer, tokenizer, std::move(v));
  const auto add_role = [&](const char* name, const char* role) {
    if (const auto id = ids.find(token_text(config, name)); id != ids.end())
      writer.add_count(fmt::format("tokenizer.ggml.{}_token_id", role), id->second);
  };
  add_role("bos_token", "bos"), add_role("eos_token", "eos");
  add_role("unk_token", "unknown"), add_role("pad_token", "padding");
  if (type == "WordPiece")  // GGUF spells it so
    add_role("cls_token", "cls"), add_role("sep_token", "seperator"), add_role("mask_token", "mask");
  const std::string bos = token_text(config, "bos_token"), eos = token_text(config, "eos_token");
  writer.add_bool("tokenizer.ggml.add_bos_token", !bos.empty() && is_added(tokenizer, bos, true));
  writer.add_bool("tokenizer.ggml.add_eos_token", !eos.empty() && is_added(tokenizer, eos, false));
  if (config.contains("chat_template") && config["chat_template"].is_string())
    writer.add_string("tokenizer.chat_template", config["chat_template"].get<std::string>());
}

}  // namespace transom
