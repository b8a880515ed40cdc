// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/sentencepiece/sentencepiece_model.h"

#include <bit>
#include <optional>

#include "base/error.h"
#include "base/protobuf/wire_reader.h"

namespace transom::text {
namespace {

constexpr const char* kFormat = "SentencePiece model";

SentencePieceModel::Piece read_piece(std::string_view bytes, const std::string& where) {
  SentencePieceModel::Piece piece;
  WireReader reader(bytes, where, kFormat);
  while (const auto field = reader.next()) {
    if (field->number == 1) piece.text = field->bytes;
    if (field->number == 2) piece.score = std::bit_cast<float>(static_cast<uint32_t>(field->value));
    if (field->number == 3) {
      require(field->value >= 1 && field->value <= 6, "{}: piece {}: expected a type from 1 to 6, found {}", where,
              quoted(piece.text), field->value);
      piece.type = static_cast<SentencePieceModel::PieceType>(field->value);
    }
  }
  require(piece.score == piece.score, "{}: piece {}: its score is not a number", where, quoted(piece.text));
  return piece;
}

// Ids are 32 bits wide; -1 stands for none.
int64_t id_of(uint64_t value) { return static_cast<int32_t>(static_cast<uint32_t>(value)); }

void read_trainer(SentencePieceModel& model, std::string_view bytes, const std::string& where) {
  WireReader reader(bytes, where, kFormat);
  while (const auto field = reader.next()) {
    switch (field->number) {
      case 3:
        require(field->value >= 1 && field->value <= 4, "{}: expected a model type from 1 to 4, found {}", where,
                field->value);
        model.kind = static_cast<SentencePieceModel::Kind>(field->value);
        break;
      case 24:
        model.space_is_suffix = field->value != 0;
        break;
      case 35:
        model.byte_fallback = field->value != 0;
        break;
      case 40:
        model.unknown_id = id_of(field->value);
        break;
      case 41:
        model.bos_id = id_of(field->value);
        break;
      case 42:
        model.eos_id = id_of(field->value);
        break;
      case 43:
        model.pad_id = id_of(field->value);
        break;
      case 44:
        model.unknown_surface = field->bytes;
        break;
      case 45:
        model.unknown_piece = field->bytes;
        break;
      case 46:
        model.bos_piece = field->bytes;
        break;
      case 47:
        model.eos_piece = field->bytes;
        break;
      case 48:
        model.pad_piece = field->bytes;
        break;
      default:
        break;
    }
  }
}

void read_normalizer(SentencePieceModel& model, std::string_view bytes, const std::string& where) {
  WireReader reader(bytes, where, kFormat);
  while (const auto field = reader.next()) {
    if (field->number == 2) model.character_map = field->bytes;
    if (field->number == 3) model.add_dummy_prefix = field->value != 0;
    if (field->number == 4) model.remove_extra_spaces = field->value != 0;
    if (field->number == 5) model.escape_spaces = field->value != 0;
  }
}

}  // namespace

SentencePieceModel read_sentencepiece_model(std::string_view bytes, const std::string& where) {
  SentencePieceModel model;
  WireReader reader(bytes, where, kFormat);
  while (const auto field = reader.next()) {
    if (field->number == 1) model.pieces.push_back(read_piece(field->bytes, where));
    if (field->number == 2) read_trainer(model, field->bytes, where);
    if (field->number == 3) read_normalizer(model, field->bytes, where);
  }
  require(!model.pieces.empty(), "{}: is no SentencePiece model: it has no pieces", where);
  const auto count = static_cast<int64_t>(model.pieces.size());
  require(count < (int64_t{1} << 28), "{}: expected less than 2^28 pieces, found {}", where, count);
  require(model.unknown_id >= 0 && model.unknown_id < count, "{}: unk_id: expected an id from 0 to {}, found {}", where,
          count - 1, model.unknown_id);
  return model;
}

}  // namespace transom::text
