// SPDX-License-Identifier: Apache-2.0
// Words of a text that Whisper wrote, with the tokens that each is of.
#pragma once

#include <string>
#include <vector>

#include "transom/generation.h"

namespace transom {

struct WhisperWord {
  std::string text;            // with the space before it and the punctuation beside it
  size_t first = 0, last = 0;  // of the tokens
};

// Tokens of text alone. `language` by its name ("english"; empty counts as it): some are written without spaces.
std::vector<WhisperWord> whisper_words(const Tokenizer& tokenizer, const TokenIds& tokens, const std::string& language);

}  // namespace transom
