// SPDX-License-Identifier: Apache-2.0
// What the SentencePiece library itself does with a model of unigrams or of characters: for the classes of Transformers
// that call it (Marian, SpeechT5). The tokenizers library comes near, but not to the same pieces.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inputs/text/sentencepiece/sentencepiece_model.h"
#include "inputs/text/token_models/token_trie.h"
#include "inputs/text/unicode/aligned_text.h"
#include "inputs/text/unicode/precompiled.h"

namespace transom::text {

class SentencePiece {
 public:
  // Refuses models of other kinds. `where` names the file in errors.
  SentencePiece(SentencePieceModel model, const std::string& where);

  // Appends bytes begin..end of `text` as the model sees them: characters mapped, runs of spaces made one, spaces
  // written as ▁, and one more in front.
  void normalize(const AlignedText& text, size_t begin, size_t end, AlignedText& out) const;
  struct Part {
    uint32_t begin = 0, end = 0;
    bool unknown = false;  // to be written as the pieces of its bytes, where the model has byte_fallback
  };
  // The pieces of a normalised text. Neighbouring unknown characters are one piece.
  std::vector<Part> split(std::string_view normalized) const;
  bool byte_fallback() const { return model_.byte_fallback; }
  // The text of pieces.
  std::string decode(const std::vector<std::string>& pieces) const;

 private:
  std::vector<Part> unigrams(std::string_view normalized) const;
  std::vector<Part> characters(std::string_view normalized) const;
  int32_t find(std::string_view piece) const;  // the unknown piece where there is none

  SentencePieceModel model_;
  std::optional<CharacterMap> character_map_;
  TokenTrie normal_, user_defined_, reserved_;  // the last: control, unknown and byte pieces
  std::vector<double> scores_;                  // by id
  float unknown_score_ = 0;
};

}  // namespace transom::text
