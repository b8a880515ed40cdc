// SPDX-License-Identifier: Apache-2.0
// Numbers that are computed on in f32, and stored in the type of the attention.
#pragma once

#include <cstring>

#include "cpu/attention/attention_plan.h"
#include "cpu/kernels/widening.h"

namespace transom::cpu {

inline void load_row(const AttentionPlan& plan, const std::byte* from, int64_t n, float* to) {
  if (plan.narrow()) load_function(plan.dtype)(to, from, nullptr, nullptr, static_cast<size_t>(n));
  else std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
}

inline void store_row(const AttentionPlan& plan, const float* from, int64_t n, std::byte* to) {
  if (plan.narrow()) store_function(plan.dtype)(to, from, nullptr, nullptr, static_cast<size_t>(n));
  else std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
}

}  // namespace transom::cpu
