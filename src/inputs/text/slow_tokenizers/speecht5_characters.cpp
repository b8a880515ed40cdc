// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/slow_tokenizers/speecht5_characters.h"

#include "base/error.h"
#include "inputs/text/slow_tokenizers/marian.h"
#include "inputs/text/slow_tokenizers/python_components.h"
#include "inputs/text/slow_tokenizers/spelled_numbers.h"
#include "inputs/text/unicode/clean_up.h"

namespace transom::text {
namespace {

class NumberNormalizer : public Normalizer {
 public:
  void apply(AlignedText& text) const override { numbers_.apply(text); }

 private:
  SpelledNumbers numbers_;
};

// What stands between special tokens, as the model's file has it normalised.
class SpeechT5Text : public PreTokenizer {
 public:
  explicit SpeechT5Text(std::shared_ptr<const SentencePiece> pieces) : pieces_(std::move(pieces)) {}
  void apply(Pieces& text) const override {
    text.rewrite([&](const Piece& piece, const AlignedText& from, AlignedText& out) {
      pieces_->normalize(from, piece.begin, piece.end, out);
    });
  }

 private:
  std::shared_ptr<const SentencePiece> pieces_;
};

class SpeechT5Decoder : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string result;
    for (const std::string& token : tokens) result += token;
    tokens.assign(1, stripped(replace_all(std::move(result), "▁", " ")));
  }
};

}  // namespace

Components make_speecht5_components(std::shared_ptr<const SentencePiece> pieces, bool spells_numbers,
                                    const Vocabulary& vocabulary, const TokenizerConfig& config,
                                    const std::string& where) {
  const auto id_of = [&](const char* role) {
    const std::string& token = config.special_tokens.at(role);
    const int64_t id = vocabulary.find(token);
    require(id >= 0, "{}: expected the token {} in it", where, quoted(token));
    return id;
  };
  Components parts;
  if (spells_numbers) parts.normalizer = std::make_unique<NumberNormalizer>();
  parts.pre_tokenizer = std::make_unique<SpeechT5Text>(pieces);
  parts.model = make_piece_model(std::move(pieces), vocabulary, id_of("unk"));
  parts.post_processor =
      std::make_unique<PythonProcessing>(PythonProcessing::End{id_of("eos"), config.special_tokens.at("eos")});
  parts.decoder = std::make_unique<SpeechT5Decoder>();
  return parts;
}

}  // namespace transom::text
