// SPDX-License-Identifier: Apache-2.0
// Tokens that may follow those of a text, to be verified together with the next one.
#pragma once

#include "work/generation/engine/sequence.h"

namespace transom {

// Asks for at most `most` tokens behind those of a sequence, and gets them.
struct Draft {
  const Sequence* sequence = nullptr;
  int64_t most = 0;
  TokenIds tokens = {};
  int64_t matched = 0;  // tokens before them by which they were found; 0: no such method
};

}  // namespace transom
