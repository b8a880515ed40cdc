// SPDX-License-Identifier: Apache-2.0
// Rows of softmax, for a row's own operation and for attention.
#pragma once

#include "cpu/vector/lanes.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

// e^x of x <= 0, the bits of exp_value. Below -104 it is 0 without a product that would underflow, which takes a
// processor a hundred cycles. NaN stays.
inline Lanes exp_below(Lanes x) {
  constexpr float kNothing = -104.0f;
  const Lanes place = zero_below(x, x, kNothing);
  const Nearest<Lanes> n = nearest(place * Lanes(kLog2e));
  const Lanes power = power_of_two(n.integer + LaneWords(64u));  // 2^n itself may be no normal number
  const Lanes e = (Lanes(1.0f) + expm1_reduced(reduce_exp(place, n))) * power * Lanes(0x1p-64f);
  return zero_below(e, x, kNothing);
}

inline float largest_of(const float* x, size_t n) {
  Lanes first(-kInfinity), second = first;
  size_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    first = larger(load_lanes(x + i), first);
    second = larger(load_lanes(x + i + kWidth), second);
  }
  if (i + kWidth <= n) first = larger(load_lanes(x + i), first), i += kWidth;
  if (i < n) second = larger(load_lanes(x + i, n - i, -kInfinity), second);
  return largest_of(larger(first, second));
}

// y = e^(x scale - largest) divided by its sum, which is given back. NaN in x, which is not seen in `largest`, is
// carried by the sum.
inline float softmax_below(float* y, const float* x, float scale, float largest, size_t n) {
  Lanes first(0.0f), second = first;
  const Lanes factor(scale), less(-largest);
  size_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    const Lanes e = exp_below(multiply_add(load_lanes(x + i), factor, less)),
                next = exp_below(multiply_add(load_lanes(x + i + kWidth), factor, less));
    store_lanes(y + i, e), store_lanes(y + i + kWidth, next);
    first = first + e, second = second + next;
  }
  if (i + kWidth <= n) {
    const Lanes e = exp_below(multiply_add(load_lanes(x + i), factor, less));
    store_lanes(y + i, e);
    first = first + e, i += kWidth;
  }
  if (i < n) {
    const Lanes e = exp_below(multiply_add(load_lanes(x + i, n - i, -kInfinity), factor, less));
    store_lanes(y + i, e, n - i);
    second = second + e;
  }
  const float total = sum_of(first + second);
  const Lanes share(1.0f / total);
  for (i = 0; i + kWidth <= n; i += kWidth) store_lanes(y + i, load_lanes(y + i) * share);
  if (i < n) store_lanes(y + i, load_lanes(y + i, n - i, 0.0f) * share, n - i);
  return total;
}

// Scores x = cap tanh(x scale / cap) + bias in place, without the cap where it is 0; gives back the largest.
inline float scaled_scores(float* x, const float* bias, float scale, float cap, size_t n) {
  if (cap > 0) {
    const float inner = scale / cap;
    TRANSOM_SIMD
    for (size_t i = 0; i < n; ++i) x[i] = cap * tanh_value(x[i] * inner);
    scale = 1;
  }
  const float none = scale < 0 ? kInfinity : -kInfinity;  // times the scale the least there is
  const Lanes factor(scale);
  Lanes largest(-kInfinity);
  size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    const Lanes score = load_lanes(x + i) * factor, biased = bias ? score + load_lanes(bias + i) : score;
    store_lanes(x + i, biased);
    largest = larger(biased, largest);
  }
  if (i < n) {
    const Lanes score = load_lanes(x + i, n - i, none) * factor,
                biased = bias ? score + load_lanes(bias + i, n - i, 0.0f) : score;
    store_lanes(x + i, biased, n - i);
    largest = larger(biased, largest);
  }
  return largest_of(largest);
}

// The scores and their softmax; gives back the largest and, in `total`, the sum.
inline float softmax_of_scores(float* x, const float* bias, float scale, float cap, size_t n, float& total) {
  // A factor above 0 does not change which is largest, so that scaled numbers need not be written. Of huge ones what a
  // product lost in rounding would count.
  constexpr float kHuge = 1e6f;
  if (!bias && !(cap > 0) && scale > 0) {
    const float largest = largest_of(x, n) * scale;
    if (absolute(largest) < kHuge) {
      total = softmax_below(x, x, scale, largest, n);
      return largest;
    }
  }
  const float largest = scaled_scores(x, bias, scale, cap, n);
  total = softmax_below(x, x, 1.0f, largest, n);
  return largest;
}

}  // namespace
}  // namespace transom::cpu::TRANSOM_LEVEL
