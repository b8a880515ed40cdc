// SPDX-License-Identifier: Apache-2.0
// The tokenizer of SpeechT5: spm_char.model has a piece a character; numbers may be spelt out before.
#pragma once

#include <memory>
#include <string>

#include "inputs/text/components/components.h"
#include "inputs/text/sentencepiece/sentencepiece.h"
#include "inputs/text/token_models/vocabulary.h"
#include "inputs/text/tokenizer_config.h"

namespace transom::text {

// `vocabulary` gives the ids that encode() makes, and outlives the components. `spells_numbers`: the class' normalize.
Components make_speecht5_components(std::shared_ptr<const SentencePiece> pieces, bool spells_numbers,
                                    const Vocabulary& vocabulary, const TokenizerConfig& config,
                                    const std::string& where);

}  // namespace transom::text
