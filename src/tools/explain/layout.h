// SPDX-License-Identifier: Apache-2.0
// How a model would be spread over processes: what each of them has, and what they exchange. No other process is
// needed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json/json_fwd.h"
#include "models/sharding/layout.h"
#include "tools/bench/workload.h"

namespace transom {

struct LayoutExplanation {
  std::string model, task, mesh;  // "dp 2 x tp 2"
  int64_t ranks = 1, zero_stage = 0;
  std::vector<std::string> stages;  // of a pipeline: which modules each has

  struct Parameter {
    std::string name, type;        // of the whole: "f32[30522, 768]"
    std::string placement, state;  // of the values between updates; of the optimizer's state
    int64_t stage = 0;
  };
  std::vector<Parameter> parameters;

  // Those of one kind, for one reason, over the same axes.
  struct Exchange {
    std::string kind, axes, why;
    int64_t count = 0, bytes = 0;  // of what a process gives to all of them together; of the first rank
  };
  std::vector<Exchange> exchanges;  // of one pass, or of one update with one micro-batch

  // In bytes, between updates.
  struct Memory {
    int64_t parameters = 0, gradients = 0, optimizer = 0;
    int64_t total() const { return parameters + gradients + optimizer; }
  };
  std::vector<Memory> memory;  // by rank
  // Of what the first rank computes in the forward pass, the bytes that its backward pass reads, before the compiler
  // chooses to compute some of it again. Of a pipeline, all stages together.
  int64_t activations = 0;
};

// The layout that is written "dp=2,fsdp=2,tp=2,zero=3": axes of the mesh and the stage of ZeRO (3 where fsdp is given
// without it); sp=1 is sequence_parallel beside tp, ring=1 the strategy of cp. Throws an Error of kind kUsage that
// names the word that does not fit.
ShardingLayout parse_layout(const std::string& text);

// Loads the model and traces one pass (task forward) or one update (train) as the first rank carries it out.
LayoutExplanation explain_layout(const BenchOptions& options, const ShardingLayout& layout);

std::string layout_table(const LayoutExplanation& explanation, size_t rows = 25);
Json layout_json(const LayoutExplanation& explanation);

}  // namespace transom
