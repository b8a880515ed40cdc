// SPDX-License-Identifier: Apache-2.0
// The gradient of layer_norm, some rows at a time.
#pragma once

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/rows.h"

namespace transom::cpu {

struct LayerNormGradient {
  Rows rows;
  float epsilon;

  // For rows [begin, end): writes dx, and adds to sums, [2, width], what the gradients of scale and bias get from them.
  void operator()(const std::byte* x, const std::byte* scale, const std::byte* dy, std::byte* dx, float* sums,
                  int64_t begin, int64_t end) const;
};

// Of a node layer_norm_gradient.
LayerNormGradient layer_norm_gradient(const Node& node);

}  // namespace transom::cpu
