// SPDX-License-Identifier: Apache-2.0
// Prompt lookup of Transformers: what followed the last tokens of a text where they stood before in it.
#pragma once

#include "transom/generation.h"

namespace transom {

// At most `most` tokens behind the latest place where the last `longest` tokens stand, or one token fewer, down to
// `least`; empty where they stand nowhere.
TokenIds prompt_lookup(const TokenIds& tokens, int64_t least, int64_t longest, int64_t most);

}  // namespace transom
