// SPDX-License-Identifier: Apache-2.0
// The tokenizer of Marian models: source.spm and target.spm cut the text, vocab.json gives the ids.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "inputs/text/components/components.h"
#include "inputs/text/sentencepiece/sentencepiece.h"
#include "inputs/text/token_models/vocabulary.h"
#include "inputs/text/tokenizer_config.h"

namespace transom::text {

// A language code ">>fra<<" at the beginning of a text is a token of its own. `decoding` is the model whose rules the
// decoder follows. `vocabulary` gives the ids that encode() makes, and outlives the components.
Components make_marian_components(std::shared_ptr<const SentencePiece> pieces,
                                  std::shared_ptr<const SentencePiece> decoding, const Vocabulary& vocabulary,
                                  const TokenizerConfig& config, const std::string& where);

// The pieces of a text that `pieces` has normalised, by the ids of the vocabulary; `unknown` is that of all others.
std::unique_ptr<TokenModel> make_piece_model(std::shared_ptr<const SentencePiece> pieces, const Vocabulary& vocabulary,
                                             int64_t unknown);

}  // namespace transom::text
