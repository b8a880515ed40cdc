// SPDX-License-Identifier: Apache-2.0
#include "models/diffusion/learned_words.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "files/checkpoint/safetensors.h"
#include "files/checkpoint/torch_file.h"
#include "inputs/text/unicode/unicode.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr const char *kFirstEncoder = "text_encoder", *kSecondEncoder = "text_encoder_2";
constexpr std::string_view kNamelessTensor = "emb_params";  // of AUTOMATIC1111's safetensors
constexpr size_t kLongestToken = 200;

bool is_pickled(const fs::path& path) { return path.extension() != ".safetensors"; }

std::string token_of_file(const fs::path& path, const std::optional<std::string>& token) {
  return token.value_or(path.stem().string());
}

const PickleValue* entry_of(const PickleDict& dict, std::string_view name) {
  for (const auto& [key, value] : dict)
    if (const auto* text = std::get_if<const std::string*>(&key.value); text && **text == name) return &value;
  return nullptr;
}

// AUTOMATIC1111's: {"name": ..., "string_to_param": {"*": vectors}} beside other fields; diffusers': {token: vectors};
// or the vectors alone.
LearnedWord pickled_word(const fs::path& path, const std::optional<std::string>& token) {
  const std::string where = path.string();
  TorchFile file = TorchFile::open(path);
  const auto rows_of = [&](const PickleValue& value) {
    const auto* tensor = std::get_if<const PickleTensor*>(&value.value);
    if (!tensor) fail("{}: expected the vectors of a token", where);
    return file.tensor(**tensor, where);
  };
  if (std::holds_alternative<const PickleTensor*>(file.root().value))
    return {token_of_file(path, token), "", rows_of(file.root()), where};
  const auto* root = std::get_if<PickleDict*>(&file.root().value);
  if (!root) fail("{}: expected vectors of a token, or a dictionary of them", where);
  if (const PickleValue* parameters = entry_of(**root, "string_to_param")) {
    const auto* dict = std::get_if<PickleDict*>(&parameters->value);
    const PickleValue* vectors = dict ? entry_of(**dict, "*") : nullptr;
    if (!vectors) fail("{}: string_to_param: expected vectors of '*'", where);
    const PickleValue* name = entry_of(**root, "name");
    const auto* text = name ? std::get_if<const std::string*>(&name->value) : nullptr;
    return {token.value_or(text ? **text : path.stem().string()), "", rows_of(*vectors), where};
  }
  const auto* key = (*root)->size() == 1 ? std::get_if<const std::string*>(&(**root)[0].first.value) : nullptr;
  if (!key)
    fail("{}: expected one token with its vectors, or string_to_param, found {} entries", where, (*root)->size());
  return {token.value_or(**key), "", rows_of((**root)[0].second), where};
}

void add_words_of_safetensors(std::vector<LearnedWord>& words, const fs::path& path,
                              const std::optional<std::string>& token) {
  const std::string where = path.string();
  const SafetensorsFile file = SafetensorsFile::open(path);
  const TensorView *first = file.find("clip_l"), *second = file.find("clip_g");
  const size_t count = file.tensors().size();
  if (first && second && count == 2) {
    words.push_back({token_of_file(path, token), kFirstEncoder, *first, where});
    words.push_back({token_of_file(path, token), kSecondEncoder, *second, where});
    return;
  }
  if (count != 1)
    fail("{}: expected one tensor, the vectors of a token, or clip_l and clip_g, found {} tensors", where, count);
  const auto& [name, view] = *file.tensors().begin();
  words.push_back({name == kNamelessTensor ? token_of_file(path, token) : token.value_or(name), "", view, where});
}

void add_words_of_file(std::vector<LearnedWord>& words, const fs::path& path, const std::optional<std::string>& token,
                       const std::string& part) {
  const size_t before = words.size();
  if (is_pickled(path)) words.push_back(pickled_word(path, token));
  else add_words_of_safetensors(words, path, token);
  if (!part.empty() && words.size() == before + 1) words.back().part = part;
}

}  // namespace

std::vector<LearnedWord> read_learned_words(const std::string& given, const std::optional<std::string>& token) {
  const fs::path path = given;
  std::vector<LearnedWord> words;
  if (!directory_exists(path)) {
    add_words_of_file(words, path, token, "");
  } else {
    const bool has_second = file_exists(path / "learned_embeds_2.safetensors");
    for (const char* name : {"learned_embeds.safetensors", "learned_embeds.bin"})
      if (words.empty() && file_exists(path / name))
        add_words_of_file(words, path / name, token, has_second ? kFirstEncoder : "");
    if (has_second) add_words_of_file(words, path / "learned_embeds_2.safetensors", token, kSecondEncoder);
    if (words.empty()) fail("{}: expected learned_embeds.safetensors or learned_embeds.bin, found neither", given);
  }
  for (const LearnedWord& word : words) {
    const Shape& shape = word.rows.shape;
    if (word.token.empty() || word.token.size() > kLongestToken)
      fail("{}: expected a token of up to {} bytes, found {}", word.where, kLongestToken, quoted(word.token, 80));
    if (shape.empty() || shape.size() > 2 || elements(shape) < 1 || !is_floating(word.rows.dtype))
      fail("{}: expected vectors [n, width] of numbers, found [{}]", word.where, fmt::join(shape, ", "));
  }
  return words;
}

void LearnedTokens::add(const Tokenizer& tokenizer, const std::string& token, const std::vector<int64_t>& ids) {
  folds_ = tokenizer.encode("A").ids == tokenizer.encode("a").ids;
  const auto seen = [&](const std::string& text) { return folds_ ? text::without_case(text) : text; };
  words_.push_back({seen(token), ids});
  for (size_t i = 1; i < ids.size(); ++i) words_.push_back({seen(fmt::format("{}_{}", token, i)), {ids[i]}});
  std::ranges::stable_sort(words_, [](const Word& a, const Word& b) { return a.token.size() > b.token.size(); });
}

bool LearnedTokens::holds(const std::string& token) const {
  const std::string seen = folds_ ? text::without_case(token) : token;
  return std::ranges::any_of(words_, [&](const Word& word) { return word.token == seen; });
}

Encoding LearnedTokens::encode(const Tokenizer& tokenizer, const std::string& given, int64_t length, bool& cut) const {
  const std::string text = folds_ ? text::without_case(given) : given;
  std::vector<int64_t> ids;
  const auto add_plain = [&](size_t begin, size_t end) {
    if (begin == end) return;
    const auto plain = tokenizer.encode(text.substr(begin, end - begin), std::nullopt, {.add_special_tokens = false});
    ids.insert(ids.end(), plain.ids.begin(), plain.ids.end());
  };
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const auto found = std::ranges::find_if(
        words_, [&](const Word& word) { return text.compare(at, word.token.size(), word.token) == 0; });
    if (found == words_.end()) {
      ++at;
      continue;
    }
    add_plain(begin, at);
    ids.insert(ids.end(), found->ids.begin(), found->ids.end());
    begin = at += found->token.size();
  }
  add_plain(begin, text.size());
  const std::vector<int64_t> around = tokenizer.encode("").ids;
  if (around.size() != 2 || length < 2)
    fail("the tokenizer: expected a token before a text and one behind it, found {}", around.size());
  const auto most = static_cast<size_t>(length - 2);
  cut = ids.size() > most;
  if (cut) ids.resize(most);
  ids.insert(ids.begin(), around[0]);
  ids.push_back(around[1]);
  Encoding made;
  made.attention_mask.assign(ids.size(), 1);
  made.attention_mask.resize(static_cast<size_t>(length), 0);
  ids.resize(static_cast<size_t>(length), tokenizer.pad_token_id().value_or(around[1]));
  made.ids = std::move(ids);
  return made;
}

}  // namespace transom
