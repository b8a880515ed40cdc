// SPDX-License-Identifier: Apache-2.0
// The vocabulary of tokenizer.json under the keys of GGUF.
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "io/gguf/gguf_export.h"

namespace transom {
namespace {

enum TokenType : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

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

// llama.cpp knows a way of cutting text by a name: found by what is particular to its pattern.
std::string pre_tokenizer_name(const Json& tokenizer) {
  std::string pattern;
  for (const Json& part : parts_of(tokenizer.value("pre_tokenizer", Json())))
    if (part.value("type", "") == "Split" && part.contains("pattern") && part["pattern"].is_object())
      pattern += part["pattern"].value("Regex", "");
  const auto holds = [&](std::string_view piece) { return pattern.find(piece) != pattern.npos; };
  if (pattern.empty()) return has_part(tokenizer.value("pre_tokenizer", Json()), "Digits") ? "starcoder" : "gpt-2";
  if (holds(R"(\p{Lu}\p{Lt})")) return holds("'s|'t") ? "gpt-4o" : "tekken";
  if (holds(R"(\p{N}{1,3})") && holds(R"([^\r\n\p{L}\p{N}]?\p{L}+)")) return "llama-bpe";
  if (holds(R"(|\p{N}| )") && holds(R"([^\r\n\p{L}\p{N}]?\p{L}+)")) return "qwen2";
  log(LogLevel::kWarning, "tokenizer.json: llama.cpp may have no name for this pre_tokenizer; gpt-2 is written");
  return "gpt-2";
}

// Tokens with their types and scores, by id.
struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<int64_t> types;
  std::vector<float> scores;
  std::unordered_map<std::string, int64_t> ids;

  void put(int64_t id, const std::string& token, int64_t type) {
    constexpr int64_t kMost = 1 << 24;
    if (id < 0 || id > kMost) fail("tokenizer.json: expected ids up to {}, found {}", kMost, id);
    while (static_cast<int64_t>(tokens.size()) <= id) {
      tokens.push_back(fmt::format("[PAD{}]", tokens.size()));
      types.push_back(kUnused), scores.push_back(0);
    }
    tokens[static_cast<size_t>(id)] = token;
    types[static_cast<size_t>(id)] = type;
    ids[token] = id;
  }
};

Vocabulary vocabulary_of(const Json& tokenizer, int64_t size) {
  Vocabulary v;
  for (const auto& [token, id] : tokenizer["model"]["vocab"].items()) {
    const bool byte = token.size() == 6 && token.starts_with("<0x") && token.back() == '>';
    v.put(id.get<int64_t>(), token, byte ? kByte : kNormal);
  }
  const std::string unknown = tokenizer["model"].contains("unk_token") && tokenizer["model"]["unk_token"].is_string()
                                  ? tokenizer["model"]["unk_token"].get<std::string>()
                                  : "";
  if (tokenizer.contains("added_tokens"))
    for (const Json& added : tokenizer["added_tokens"]) {
      const std::string content = added.value("content", "");
      v.put(added.value("id", int64_t{-1}), content,
            content == unknown              ? kUnknown
            : added.value("special", false) ? kControl
                                            : kUserDefined);
    }
  if (const auto last = static_cast<int64_t>(v.tokens.size()); last > size)
    fail("tokenizer.json has {} tokens, more than the model's {} (vocab_size)", last, size);
  if (size > 0 && static_cast<int64_t>(v.tokens.size()) < size) {
    const std::string name = fmt::format("[PAD{}]", size - 1);
    v.put(size - 1, name, kUnused);
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

}  // namespace

void add_gguf_vocabulary(GgufWriter& writer, const Json& tokenizer, const Json& config, int64_t size) {
  if (!tokenizer.is_object() || (tokenizer.contains("model") && !tokenizer["model"].is_object()))
    fail("tokenizer.json: expected an object with an object 'model'");
  if (!tokenizer.contains("model") || tokenizer["model"].value("type", "") != "BPE")
    fail(ErrorKind::kUnsupported, "tokenizer.json: only BPE can be written as GGUF, found {}",
         quoted(tokenizer.contains("model") ? tokenizer["model"].value("type", "") : ""));
  const Json& model = tokenizer["model"];
  if (!model.contains("vocab") || !model["vocab"].is_object() || !model.contains("merges") ||
      !model["merges"].is_array())
    fail("tokenizer.json: model: expected an object 'vocab' and a list 'merges'");
  const bool bytes = has_part(tokenizer.value("decoder", Json()), "ByteLevel");
  Vocabulary v = vocabulary_of(tokenizer, size);
  const Json& merges = model["merges"];
  writer.add_string("tokenizer.ggml.model", bytes ? "gpt2" : "llama");
  if (bytes) {
    writer.add_string("tokenizer.ggml.pre", pre_tokenizer_name(tokenizer));
    std::vector<std::string> lines;
    for (const Json& merge : merges) {
      const auto [left, right] = halves_of(merge);
      lines.push_back(left + " " + right);
    }
    writer.add_strings("tokenizer.ggml.tokens", v.tokens);
    writer.add_ints("tokenizer.ggml.token_type", v.types);
    writer.add_strings("tokenizer.ggml.merges", lines);
  } else {
    // SentencePiece joins what has the highest score: that of the piece which is joined first is the highest.
    for (size_t i = 0; i < v.scores.size(); ++i)
      v.scores[i] = v.types[i] == kNormal ? -static_cast<float>(merges.size() + i) : 0;
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
  for (const auto& [name, role] :
       {std::pair{"bos_token", "bos"}, {"eos_token", "eos"}, {"unk_token", "unknown"}, {"pad_token", "padding"}})
    if (const auto id = v.ids.find(token_text(config, name)); id != v.ids.end())
      writer.add_count(fmt::format("tokenizer.ggml.{}_token_id", role), id->second);
  const std::string bos = token_text(config, "bos_token"), eos = token_text(config, "eos_token");
  writer.add_bool("tokenizer.ggml.add_bos_token", !bos.empty() && is_added(tokenizer, bos, true));
  writer.add_bool("tokenizer.ggml.add_eos_token", !eos.empty() && is_added(tokenizer, eos, false));
  if (config.contains("chat_template") && config["chat_template"].is_string())
    writer.add_string("tokenizer.chat_template", config["chat_template"].get<std::string>());
}

}  // namespace transom
