// SPDX-License-Identifier: Apache-2.0
// Attributes that all records of attention have, and what these are tried with.
#pragma once

#include <vector>

#include "graph/ir/operation.h"
#include "graph/ops/rules.h"

namespace transom {

Attributes attention_attributes(const AttentionOptions& options, bool biased, double dropout);

struct AttentionSample {
  DType dtype;
  Shape q, k;
  int64_t e;  // numbers of a value
  AttentionOptions options;
  Shape bias;  // empty: there is none
  double dropout;
};

// Its inputs are those of attention, then `more`, then the cotangent of a gradient.
Sample sample_of_attention(const AttentionSample& sample, const std::vector<Type>& more, bool gradient,
                           int64_t index_limit);

}  // namespace transom
