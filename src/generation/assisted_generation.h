// SPDX-License-Identifier: Apache-2.0
// generate() of one prompt with an assistant model: the engine verifies what the assistant drafts.
#pragma once

#include "transom/engine.h"

namespace transom {

struct Assisted {
  const Model* assistant = nullptr;
  int64_t num_assistant_tokens = 5;  // of a draft
};

// The prompt with what follows it: the tokens of generate(), greedy or drawn with the configuration's seed. Refuses
// (kUnsupported) beams, several sequences, and models whose drafts the engine does not verify.
TokenIds generate_assisted(const Model& model, const Assisted& assisted, const TokenIds& prompt,
                           const GenerationConfig& config, const GenerationOptions& options,
                           EngineStatistics* statistics = nullptr);

}  // namespace transom
