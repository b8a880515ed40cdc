// SPDX-License-Identifier: Apache-2.0
// Completions that were written at once, scored, and wait to be learnt from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transom/generation.h"

namespace transom {

struct Rollout {
  TokenIds tokens;     // of the prompt and behind it the completion
  int64_t prompt = 0;  // so many are the prompt's
  bool counts = true;  // false: nothing is learnt from it
  float advantage = 0;
  float score = 0;  // of Online DPO: its rewards
  // Of the completion's tokens; empty: none are kept.
  std::vector<float> old, reference;
  std::vector<float> sampled;  // as the completion was written
  std::vector<float> weights;  // weights_of_rollout
};

// Those of this process, in the order in which they are learnt from.
struct Rollouts {
  int64_t number = -1;  // of the generation in the run
  int64_t length = 0;   // in tokens, of the rows that they are learnt in
  double tokens = 0;    // that are learnt, of the completions of all processes
  std::vector<Rollout> rows;

  // For a checkpoint: the same bits come back. Throws where the text is none of these.
  std::string text() const;
  static Rollouts read(const std::string& text, const std::string& where);
};

}  // namespace transom
