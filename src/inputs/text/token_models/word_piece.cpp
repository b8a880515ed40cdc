// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/token_models/word_piece.h"

#include "inputs/text/components/fields.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::text {

WordPiece::WordPiece(const Json& json, const Vocabulary& vocabulary, const std::string& where)
    : vocabulary_(vocabulary), prefix_(string_field(json, "continuing_subword_prefix", where, "##")) {
  const int64_t maximum = integer_field(json, "max_input_chars_per_word", where, 100);
  require(maximum >= 0, "{}.max_input_chars_per_word: expected at least 0, found {}", where, maximum);
  maximum_characters_ = static_cast<size_t>(maximum);
  const std::string unknown = string_field(json, "unk_token", where, "[UNK]");
  unknown_ = vocabulary.find(unknown);
  require(unknown_ >= 0, "{}.unk_token: the vocabulary has no token {}", where, quoted(unknown));
}

void WordPiece::tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const {
  const auto size = static_cast<uint32_t>(piece.size());
  const size_t first_token = tokens.size();
  if (count_characters(piece) > maximum_characters_) return tokens.push_back({unknown_, 0, size});
  std::string candidate;
  for (size_t begin = 0; begin < piece.size();) {
    int64_t id = -1;
    size_t end = piece.size();
    if (begin > 0) candidate.assign(prefix_).append(piece.substr(begin));
    while (end > begin) {
      id = begin == 0 ? vocabulary_.find_own(piece.substr(0, end))
                      : vocabulary_.find_own(std::string_view(candidate).substr(0, prefix_.size() + end - begin));
      if (id >= 0) break;
      end = previous_boundary(piece, end);
    }
    if (id < 0) {
      tokens.resize(first_token);
      return tokens.push_back({unknown_, 0, size});
    }
    tokens.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    begin = end;
  }
}

WordLevel::WordLevel(const Json& json, const Vocabulary& vocabulary, const std::string& where)
    : vocabulary_(vocabulary) {
  unknown_ = vocabulary.find(string_field(json, "unk_token", where, "<unk>"));
}

void WordLevel::tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const {
  int64_t id = vocabulary_.find_own(piece);
  if (id < 0) id = unknown_;
  require(id >= 0, "the vocabulary has neither the word {} nor an unknown token", quoted(piece));
  tokens.push_back({id, 0, static_cast<uint32_t>(piece.size())});
}

}  // namespace transom::text
