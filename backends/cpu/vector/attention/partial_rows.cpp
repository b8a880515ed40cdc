// SPDX-License-Identifier: Apache-2.0
#include "cpu/vector/attention/partial_rows.h"

#include "cpu/vector/softmax.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

void statistics(float* x, const float* bias, float scale, float cap, size_t n, float* largest, float* sum) {
  *largest = softmax_of_scores(x, bias, scale, cap, n, *sum);
}

void weights(float* x, const float* bias, float scale, float cap, size_t n, float largest, float sum) {
  scaled_scores(x, bias, scale, cap, n);
  const float share = 1.0f / sum;
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) x[i] = exp_value(x[i] - largest) * share;
}

}  // namespace

void fill_partial_rows(PartialRows& table) { table = {statistics, weights}; }

}  // namespace transom::cpu::TRANSOM_LEVEL
