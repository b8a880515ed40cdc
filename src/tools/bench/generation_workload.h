// SPDX-License-Identifier: Apache-2.0
// A benchmark of text generation: a prompt of random tokens is read (prefill), then tokens are written greedily, one a
// step for each row (decode). Both are measured in each run, as optimum-benchmark's phases of those names.
#pragma once

#include <memory>
#include <vector>

#include "tools/bench/workload.h"

namespace transom {

// batch_size prompts of sequence_length tokens and max_new_tokens more; throws for models that do not generate.
std::unique_ptr<Workload> make_generation_workload(std::unique_ptr<Model> model, const BenchOptions& options);

}  // namespace transom
