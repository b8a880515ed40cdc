// SPDX-License-Identifier: Apache-2.0
// A SentencePiece model file (spiece.model, tokenizer.model, source.spm): the fields of sentencepiece_model.proto that
// bear on tokenising, read from the protobuf wire format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace transom::text {

struct SentencePieceModel {
  enum class Kind { kUnigram = 1, kBytePairs = 2, kWord = 3, kCharacter = 4 };
  enum class PieceType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::kNormal;
  };

  Kind kind = Kind::kUnigram;
  std::vector<Piece> pieces;  // by id
  int64_t unknown_id = 0, bos_id = 1, eos_id = 2, pad_id = -1;
  std::string unknown_piece = "<unk>", bos_piece = "<s>", eos_piece = "</s>", pad_piece = "<pad>";
  std::string unknown_surface = " \u2047 ";  // what an unknown piece is decoded as
  bool byte_fallback = false;
  bool space_is_suffix = false;  // treat_whitespace_as_suffix
  std::string character_map;     // precompiled_charsmap; empty: none
  bool add_dummy_prefix = true, remove_extra_spaces = true, escape_spaces = true;
};

// From the bytes of the file; `where` names it in errors.
SentencePieceModel read_sentencepiece_model(std::string_view bytes, const std::string& where);

}  // namespace transom::text
