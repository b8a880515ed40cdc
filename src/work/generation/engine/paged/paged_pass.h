// SPDX-License-Identifier: Apache-2.0
// From tokens of texts in the paged cache to the arrays of a pass.
#pragma once

#include <span>
#include <vector>

#include "work/generation/engine/paged/paged_program.h"

namespace transom {

struct PassToken {
  int64_t id = 0, place = 0;                 // in its text
  const std::vector<int32_t>* blocks{};      // of its text, up to this token at least; they outlive the call
  const TextPositions* positions = nullptr;  // of its text; null: a token stands at its place
  const float* row = nullptr;                // [D], in place of the token's embedding
  SeenBlocks sources = {};                   // of pictures beside the tokens
};

// Of the model.
struct TokenWidths {
  int64_t position_axes = 1, embedding = 0;  // D
  int64_t source = 0;                        // rows of a block of pictures beside the tokens; 0: there are none
};

// Padding first, then tokens whose scores nobody asks for, then those that are `scored`, whose scores are the last rows
// of the result. A pass has at most `most_tokens`.
PagedPass pass_of(std::span<const PassToken> silent, std::span<const PassToken> scored, int64_t block_size,
                  int64_t most_tokens, const TokenWidths& widths);

}  // namespace transom
