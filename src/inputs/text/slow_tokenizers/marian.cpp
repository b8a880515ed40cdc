// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/slow_tokenizers/marian.h"

#include <algorithm>

#include "base/error.h"
#include "inputs/text/slow_tokenizers/python_components.h"
#include "inputs/text/unicode/clean_up.h"

namespace transom::text {
namespace {

using SharedPieces = std::shared_ptr<const SentencePiece>;

// Finds the language code, and writes the rest as the SentencePiece model sees it.
class MarianText : public PreTokenizer {
 public:
  MarianText(SharedPieces pieces, const Vocabulary& vocabulary, int64_t unknown)
      : pieces_(std::move(pieces)), vocabulary_(vocabulary), unknown_(unknown) {}

  void apply(Pieces& text) const override {
    std::vector<Piece> parts;
    for (const Piece& piece : text.pieces) {
      const std::string_view view = text.text.view(piece.begin, piece.end);
      const size_t end = view.starts_with(">>") && piece.token < 0 ? view.find("<<") : view.npos;
      if (end == view.npos) {
        parts.push_back(piece);
        continue;
      }
      const auto middle = piece.begin + static_cast<uint32_t>(end) + 2;
      const int64_t code = vocabulary_.find(view.substr(0, end + 2));
      parts.push_back({piece.begin, middle, piece.first, code < 0 ? unknown_ : code});
      if (middle < piece.end) parts.push_back({middle, piece.end, false, -1});
    }
    text.pieces = std::move(parts);
    text.rewrite([&](const Piece& piece, const AlignedText& from, AlignedText& out) {
      pieces_->normalize(from, piece.begin, piece.end, out);
    });
  }

 private:
  SharedPieces pieces_;
  const Vocabulary& vocabulary_;
  int64_t unknown_;
};

class MarianModel : public TokenModel {
 public:
  MarianModel(SharedPieces pieces, const Vocabulary& vocabulary, int64_t unknown)
      : pieces_(std::move(pieces)), vocabulary_(vocabulary), unknown_(unknown) {}

  void tokenize(std::string_view text, std::vector<ModelToken>& tokens) const override {
    const auto id_of = [&](std::string_view piece) {
      const int64_t id = vocabulary_.find(piece);
      return id < 0 ? unknown_ : id;
    };
    for (const auto& part : pieces_->split(text)) {
      const std::string_view piece = text.substr(part.begin, part.end - part.begin);
      if (!part.unknown || !pieces_->byte_fallback()) {
        tokens.push_back({id_of(piece), part.begin, part.end});
        continue;
      }
      for (const char byte : piece) {
        const auto value = static_cast<unsigned>(static_cast<unsigned char>(byte));
        tokens.push_back({id_of(fmt::format("<0x{:02X}>", value)), part.begin, part.end});
      }
    }
  }

 private:
  SharedPieces pieces_;
  const Vocabulary& vocabulary_;
  int64_t unknown_;
};

// Runs of pieces as SentencePiece decodes them, special tokens as they are with a space behind.
class MarianDecoder : public Decoder {
 public:
  MarianDecoder(SharedPieces pieces, std::vector<std::string> special)
      : pieces_(std::move(pieces)), special_(std::move(special)) {}

  void apply(std::vector<std::string>& tokens) const override {
    std::string result;
    std::vector<std::string> run;
    for (std::string& token : tokens) {
      if (std::find(special_.begin(), special_.end(), token) == special_.end()) {
        run.push_back(std::move(token));
        continue;
      }
      result += pieces_->decode(run) + token + " ";
      run.clear();
    }
    result += pieces_->decode(run);
    tokens.assign(1, stripped(replace_all(std::move(result), "▁", " ")));
  }

 private:
  SharedPieces pieces_;
  std::vector<std::string> special_;
};

}  // namespace

std::unique_ptr<TokenModel> make_piece_model(SharedPieces pieces, const Vocabulary& vocabulary, int64_t unknown) {
  return std::make_unique<MarianModel>(std::move(pieces), vocabulary, unknown);
}

Components make_marian_components(SharedPieces pieces, SharedPieces decoding, const Vocabulary& vocabulary,
                                  const TokenizerConfig& config, const std::string& where) {
  std::vector<std::string> special = config.additional_special_tokens;
  for (const auto& [role, token] : config.special_tokens) special.push_back(token);
  const auto id_of = [&](const char* role) {
    const std::string& token = config.special_tokens.at(role);
    const int64_t id = vocabulary.find(token);
    require(id >= 0, "{}: expected the token {} in it", where, quoted(token));
    return id;
  };
  const int64_t unknown = id_of("unk");
  Components parts;
  parts.pre_tokenizer = std::make_unique<MarianText>(pieces, vocabulary, unknown);
  parts.model = make_piece_model(std::move(pieces), vocabulary, unknown);
  parts.post_processor =
      std::make_unique<PythonProcessing>(PythonProcessing::End{id_of("eos"), config.special_tokens.at("eos")});
  parts.decoder = std::make_unique<MarianDecoder>(std::move(decoding), std::move(special));
  return parts;
}

}  // namespace transom::text
