// SPDX-License-Identifier: Apache-2.0
// generate() for prompts that are each by itself, computed together by the engine, and with an assistant model.
#pragma once

#include <vector>

#include "transom/engine.h"

namespace transom {

struct EachOptions {
  const Tokenizer* tokenizer = nullptr;  // for stop strings, and for padding where a prompt goes through generate()
  int64_t together = 1;                  // prompts that are computed at a time
  Streamer* streamer = nullptr;          // of one prompt
  // A smaller model of the same tokens, whose drafts are verified (EngineOptions::assistant); null: none.
  const Model* assistant = nullptr;
  int64_t num_assistant_tokens = 5;
  EngineStatistics* statistics = nullptr;  // receives what the engine counted, where it wrote
};

// The text, with its prompt, that generate() gives for each prompt alone, greedy or drawn with the configuration's
// seed: of at most `together` at a time by the engine, so that nothing is computed for padding and the next one begins
// where one has ended. Products take their sums in the engine's order, so that scores differ in their last bits from
// those of generate(). What the engine does not compute goes through generate(): one prompt without an assistant,
// models with an encoder, on other devices than cpu, over several processes, prompts that would become longer than the
// engine takes. One text for a prompt, without beams. With an assistant all is the engine's: refuses (kUnsupported)
// models whose drafts it does not verify.
std::vector<TokenIds> generate_each(const Model& model, const std::vector<ModelInputs>& prompts,
                                    const GenerationConfig& config, const EachOptions& options);

}  // namespace transom
