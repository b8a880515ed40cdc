// SPDX-License-Identifier: Apache-2.0
// WordPiece (Schuster and Nakajima, 2012), greedy: the longest known beginning, then the longest continuations.
#include <deque>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "text/components.h"
#include "text/unicode.h"

namespace transom::text {
namespace {

constexpr int64_t kMaximumId = 1 << 27;

// Tokens by id and ids by token.
class Vocabulary {
 public:
  Vocabulary(VocabularyEntries entries, const std::string& where) {
    int64_t highest = -1;
    for (const auto& [token, id] : entries) {
      if (id < 0 || id > kMaximumId) fail("{}: vocab: token {} has the id {}", where, transom::quoted(token), id);
      highest = std::max(highest, id);
    }
    if (highest >= 4 * static_cast<int64_t>(entries.size()) + 1024)
      fail("{}: vocab: the highest id is {}, for {} tokens", where, highest, entries.size());
    tokens_.resize(static_cast<size_t>(highest + 1));
    for (auto& [token, id] : entries) tokens_[static_cast<size_t>(id)] = std::move(token);
    ids_.reserve(tokens_.size());
    for (size_t id = 0; id < tokens_.size(); ++id)
      if (!tokens_[id].empty()) ids_.emplace(tokens_[id], static_cast<int64_t>(id));
  }

  int64_t id(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? -1 : found->second;
  }
  std::string token(int64_t id) const { return id >= 0 && id < size() ? tokens_[static_cast<size_t>(id)] : ""; }
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }

 private:
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, int64_t> ids_;
};

class WordPiece : public TokenModel {
 public:
  WordPiece(const Json& json, VocabularyEntries entries, const std::string& where)
      : vocabulary_(std::move(entries), where) {
    if (json.contains("continuing_subword_prefix") && json["continuing_subword_prefix"].is_string())
      prefix_ = json["continuing_subword_prefix"].get<std::string>();
    if (json.contains("max_input_chars_per_word") && json["max_input_chars_per_word"].is_number_unsigned())
      limit_ = json["max_input_chars_per_word"].get<size_t>();
    const std::string unknown =
        json.contains("unk_token") && json["unk_token"].is_string() ? json["unk_token"].get<std::string>() : "[UNK]";
    unknown_ = vocabulary_.id(unknown);
    if (unknown_ < 0) fail("{}: model: the unknown token {} is not in the vocabulary", where, transom::quoted(unknown));
  }

  void tokenize(std::string_view word, std::vector<ModelToken>& out) const override {
    const size_t first = out.size();
    const auto length = static_cast<uint32_t>(word.size());
    if (count_characters(word) > limit_) {
      out.push_back({unknown_, 0, length});
      return;
    }
    std::string candidate;
    for (uint32_t begin = 0; begin < length;) {
      uint32_t end = length;
      int64_t id = -1;
      candidate = begin == 0 ? "" : prefix_;
      const size_t prefix = candidate.size();
      candidate += word.substr(begin);
      while (end > begin && (id = vocabulary_.id(candidate)) < 0) {
        do --end;
        while (end > begin && is_continuation(word[end]));
        candidate.resize(prefix + end - begin);
      }
      if (id < 0 || end == begin) {
        out.resize(first);
        out.push_back({unknown_, 0, length});
        return;
      }
      out.push_back({id, begin, end});
      begin = end;
    }
  }

  int64_t id_of(std::string_view token) const override { return vocabulary_.id(token); }
  std::string token_of(int64_t id) const override { return vocabulary_.token(id); }
  int64_t size() const override { return vocabulary_.size(); }

 private:
  Vocabulary vocabulary_;
  std::string prefix_ = "##";
  size_t limit_ = 100;
  int64_t unknown_ = -1;
};

}  // namespace

std::unique_ptr<TokenModel> parse_model(const Json& json, VocabularyEntries vocabulary, const std::string& where) {
  if (!json.is_object()) fail("{}: expected an object model", where);
  // Old files give no type.
  const std::string type = json.contains("type") ? component_type(json, where) : "WordPiece";
  if (type == "WordPiece") return std::make_unique<WordPiece>(json, std::move(vocabulary), where);
  unknown_component("model", type, {"WordPiece"}, where);
}

}  // namespace transom::text
