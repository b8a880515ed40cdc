// SPDX-License-Identifier: Apache-2.0
// What each token writes, as bytes: a token may be a part of a character.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transom/tokenizer.h"

namespace transom {

// The bytes that the token adds in the middle of a text; nothing for special tokens and ids without a token.
std::string token_bytes(const Tokenizer& tokenizer, int64_t token);
// Those of all tokens of the vocabulary, by id.
std::vector<std::string> all_token_bytes(const Tokenizer& tokenizer);

}  // namespace transom
