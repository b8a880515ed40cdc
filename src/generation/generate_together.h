// SPDX-License-Identifier: Apache-2.0
// generate() for many prompts, each by itself, computed together.
#pragma once

#include <vector>

#include "transom/generation.h"
#include "transom/model.h"

namespace transom {

// The text, with its prompt, that generate() gives for each prompt alone: of at most `together` at a time by the
// engine, so that nothing is computed for padding and the next one begins where one has ended. Products take their sums
// in the engine's order, so that scores differ in their last bits from those of generate(). One text for a prompt,
// without beams; what the engine does not compute together goes through generate(): models with an encoder, on other
// devices than cpu, over several processes, prompts that would become longer than the engine takes.
std::vector<TokenIds> generate_together(const Model& model, const std::vector<TokenIds>& prompts,
                                        const GenerationConfig& config, const Tokenizer& tokenizer, int64_t together);

}  // namespace transom
