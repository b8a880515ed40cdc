// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/kernels/kernel.h"

namespace transom::cpu {

// The selective scan of rows, and its gradient.
void add_scan_kernels(KernelTable& table);
// The gated delta rule of rows, and of tokens of any texts.
void add_delta_kernels(KernelTable& table);
// Recurrences of tokens of any texts, whose states lie in a pool.
void add_paged_state_kernels(KernelTable& table);

// How many heads a task takes together, so that their states stay in a cache.
inline int64_t scan_heads_together(int64_t numbers) {
  constexpr int64_t kNumbers = 8192;
  return numbers >= kNumbers ? 1 : kNumbers / (numbers < 512 ? 512 : numbers);
}

// Inputs of f32, and of i64 from `places` on.
inline bool is_scan_of_floats(std::span<const transom_value> inputs, size_t places) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].dtype != (i < places ? TRANSOM_FLOAT32 : TRANSOM_INT64)) return false;
  return !inputs.empty();
}

}  // namespace transom::cpu
