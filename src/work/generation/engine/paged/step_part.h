// SPDX-License-Identifier: Apache-2.0
// What a step computes of a sequence.
#pragma once

#include <vector>

#include "work/generation/engine/drafts/draft.h"
#include "work/generation/engine/paged/sequence_blocks.h"

namespace transom {

// Tokens [begin, begin + count) of a sequence that has `length` of them; behind its last one those of a draft.
struct StepPart {
  Sequence* sequence;
  SequenceBlocks* text;
  int64_t count;
  bool scores_prompt = false;
  int64_t begin = sequence->seen, length = sequence->length();
  Draft draft = {};

  int64_t end() const { return begin + count; }
  // The last token of the text, with a draft or without.
  bool is_next() const { return begin + 1 == length; }
  int64_t token(int64_t place) const {
    return place < length ? sequence->tokens()[static_cast<size_t>(place)]
                          : draft.tokens[static_cast<size_t>(place - length)];
  }
  // Whether what follows the token is asked for.
  bool is_scored(int64_t place) const {
    return place + 1 >= length || (scores_prompt && place + 1 < sequence->request().prompt_length());
  }
};

inline int64_t tokens_of(const std::vector<StepPart>& parts) {
  int64_t tokens = 0;
  for (const StepPart& part : parts) tokens += part.count;
  return tokens;
}

}  // namespace transom
