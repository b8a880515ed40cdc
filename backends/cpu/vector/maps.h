// SPDX-License-Identifier: Apache-2.0
// Loops over a tile. An operation is a struct with a static `apply`.
#pragma once

#include "cpu/vector/level.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

template <typename Op, typename From, typename To = From>
void map1(void* y, const void* a, const void*, const void*, size_t n) {
  auto* out = static_cast<To*>(y);
  auto* x = static_cast<const From*>(a);
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) out[i] = Op::template apply<From>(x[i]);
}

template <typename Op, typename From, typename To = From>
void map2(void* y, const void* a, const void* b, const void*, size_t n) {
  auto* out = static_cast<To*>(y);
  auto* x = static_cast<const From*>(a);
  auto* z = static_cast<const From*>(b);
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) out[i] = Op::template apply<From>(x[i], z[i]);
}

}  // namespace
}  // namespace transom::cpu::TRANSOM_LEVEL
