// SPDX-License-Identifier: Apache-2.0
// Several processes that compute one model together: one of them searches and schedules, the others repeat its passes.
// Sums may differ in their last bits between processes, and so would the tokens that each would choose.
#pragma once

#include <functional>

#include "runtime/tensor/evaluator.h"
#include "work/generation/processes/process_command.h"
#include "work/generation/search/decoding.h"

namespace transom {

// Where this process leads others (see Evaluator): tells them. Elsewhere nothing.
void tell_followers(const ProcessCommand& command);

// What `search` gives on the process that leads, or its error; on the others too, which do not call it, but repeat what
// it does with their `decoding`. All begin with the same prompts, `rows`, masks and inputs: throws an Error on a
// process that has others. Without an Evaluator: search().
GenerationOutput search_together(Decoding& decoding, const std::vector<TokenIds>& rows,
                                 const std::function<GenerationOutput()>& search);

// For processes that do not lead: does what the engine of the one that leads says, until it ends.
void follow_engine(const Model& model, Evaluator& evaluator);

}  // namespace transom
