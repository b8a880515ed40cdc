// SPDX-License-Identifier: Apache-2.0
// The tokenizer of Wav2Vec2's CTC models: vocab.json has a token a character.
#pragma once

#include <string>
#include <vector>

#include "base/json/json_fwd.h"
#include "inputs/text/components/added_tokens.h"
#include "inputs/text/components/components.h"
#include "inputs/text/tokenizer_config.h"
#include "inputs/text/tokenizer_file.h"

namespace transom::text {

// `fields` are those of tokenizer_config.json: do_lower_case (texts are written in capitals, decoded in small letters),
// word_delimiter_token (what stands for a space), replace_word_delimiter_char (what the decoder writes for it).
// The decoder expects all tokens, special ones included, and joins repeated ones. `vocabulary` outlives the components.
Components make_ctc_components(const Json& fields, const TokenizerConfig& config, const Vocabulary& vocabulary,
                               const std::string& where);

// Tokens of several characters, which are found in the text before it is cut into characters.
std::vector<AddedToken> long_tokens(const Vocabulary& vocabulary);

// The vocabulary of one language (target_lang) of a vocab.json that has several, or of the whole file.
TokenizerFile read_ctc_vocabulary(std::string_view text, const Json& fields, const std::string& where);

}  // namespace transom::text
