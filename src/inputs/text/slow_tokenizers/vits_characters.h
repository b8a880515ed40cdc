// SPDX-License-Identifier: Apache-2.0
// The tokenizer of VITS and MMS-TTS: vocab.json has a token a character, or a phoneme.
#pragma once

#include <string>

#include "base/json/json_fwd.h"
#include "inputs/text/components/components.h"
#include "inputs/text/tokenizer_config.h"

namespace transom::text {

// `fields` are those of tokenizer_config.json: normalize (small letters, and no character that the vocabulary lacks),
// add_blank (token 0 between all others), language (of Romanian a letter is written as the vocabularies have it).
// Texts of a tokenizer that asks for phonemes (phonemize) are read as phonemes; that, and texts that are to be
// romanized before (is_uroman), are reported. `vocabulary` outlives the components.
Components make_vits_components(const Json& fields, const TokenizerConfig& config, const Vocabulary& vocabulary,
                                const std::string& where);

}  // namespace transom::text
