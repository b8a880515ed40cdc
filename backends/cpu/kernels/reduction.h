// SPDX-License-Identifier: Apache-2.0
// A reduction along the last axis, row by row, with the bits of the reduction of the whole tensor.
#pragma once

#include "cpu/kernels/kernel.h"

namespace transom::cpu {

enum class Reduction { kSum, kMax, kMin };

struct RowReduction {
  Reduction kind;
  int64_t width;   // of a row
  int64_t pieces;  // that are reduced one by one

  float operator()(const float* row) const;
};

// Of a node reduce_sum, reduce_max or reduce_min of f32 along the last axis; else throws.
RowReduction row_reduction(const Node& node);

}  // namespace transom::cpu
