// SPDX-License-Identifier: Apache-2.0
#include "files/gguf/gguf_special_tokens.h"

#include <algorithm>

#include "base/error.h"
#include "base/terminal/log.h"

namespace transom {
namespace {

constexpr const char* kRoles[] = {"bos", "eos", "eot", "eom", "unknown", "seperator", "padding", "cls", "mask"};

std::string key_of_role(const std::string& role) { return "tokenizer.ggml." + role + "_token_id"; }

// How many tokens there are: without a vocabulary, rows of the table.
int64_t token_count(const GgufFile& file) {
  if (const auto tokens = static_cast<int64_t>(file.get_strings("tokenizer.ggml.tokens").size()); tokens > 0)
    return tokens;
  const GgufTensor* table = file.find("token_embd.weight");
  return table && !table->shape.empty() ? table->shape[0] : 0;
}

std::optional<int64_t> default_id(const std::string& model, const std::string& role) {
  struct Default {
    const char *model, *role;
    int64_t id;
  };
  constexpr Default kDefaults[] = {{"llama", "bos", 1}, {"llama", "eos", 2},  {"llama", "unknown", 0},
                                   {"t5", "eos", 1},    {"t5", "unknown", 2}, {"t5", "padding", 0}};
  for (const Default& one : kDefaults)
    if (model == one.model && role == one.role) return one.id;
  return std::nullopt;
}

// Whether a token of this text ends a turn or a text, in the model families that llama.cpp knows.
bool says_end(const std::string& text) {
  constexpr const char* kEnds[] = {"<|eot_id|>",
                                   "<|im_end|>",
                                   "<|end|>",
                                   "<|return|>",
                                   "<|call|>",
                                   "<end_of_turn>",
                                   "<|endoftext|>",
                                   "<|eom_id|>",
                                   "<EOT>",
                                   "<|end_of_text|>",
                                   "[EOT]",
                                   "<end_of_utterance>",
                                   "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"};
  return std::any_of(std::begin(kEnds), std::end(kEnds), [&](const char* end) { return text == end; });
}

}  // namespace

std::optional<int64_t> gguf_special_id(const GgufFile& file, const std::string& role) {
  const int64_t count = token_count(file);
  const auto inside = [&](int64_t id) { return id >= 0 && id < count; };
  if (const std::string key = key_of_role(role); file.has(key))
    if (const int64_t id = file.get_int(key); inside(id)) return id;
  const auto otherwise = default_id(file.get_string("tokenizer.ggml.model", "none"), role);
  return otherwise && inside(*otherwise) ? otherwise : std::nullopt;
}

void report_gguf_special_ids(const GgufFile& file) {
  for (const char* role : kRoles) {
    const std::string key = key_of_role(role);
    if (!file.has(key)) continue;
    const int64_t id = file.get_int(key), count = token_count(file);
    if (id >= 0 && id < count) continue;
    const auto instead = gguf_special_id(file, role);
    log(LogLevel::kWarning, fmt::format("{}: key {}: {} is no token of {}; {}", file.where(), quoted(key), id, count,
                                        instead ? fmt::format("{} is taken", *instead) : "it is left out"));
  }
}

std::vector<int64_t> gguf_end_ids(const GgufFile& file) {
  std::vector<int64_t> ends;
  const auto add = [&](int64_t id) {
    if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  };
  for (const char* role : {"eos", "eot", "eom"})
    if (const auto id = gguf_special_id(file, role)) add(*id);
  const std::vector<std::string>& tokens = file.get_strings("tokenizer.ggml.tokens");
  const std::vector<int64_t> types = file.get_ints("tokenizer.ggml.token_type");
  bool returns = false, calls = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool control = i < types.size() && types[i] == GgufTokenType::kControl;
    if (control && says_end(tokens[i])) add(static_cast<int64_t>(i));
    returns |= tokens[i] == "<|return|>", calls |= tokens[i] == "<|call|>";
  }
  // In the harmony format <|end|> ends a message, not the answer.
  if (returns && calls) std::erase_if(ends, [&](int64_t id) { return tokens[static_cast<size_t>(id)] == "<|end|>"; });
  return ends;
}

}  // namespace transom
