// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "transom/generation.h"
#include "transom/tokenizer.h"

namespace transom::serve {

// The ids of a prompt. Of a long text the beginning is tokenised first, then twice as much of it, and so on: what is
// too long for the model anyway (`limit` tokens; 0: no limit) does not take the time that all of it would. Throws 400
// context_length_exceeded, by the name of the field.
TokenIds encode_prompt(const std::string& text, const EncodeOptions& options, const Tokenizer& tokenizer, int64_t limit,
                       const std::string& field);

}  // namespace transom::serve
