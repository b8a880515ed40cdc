// SPDX-License-Identifier: Apache-2.0
#include "cpu/vector/products/pair_rows.h"

#include <immintrin.h>

#include "cpu/vector/level.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

constexpr size_t kVectors = 4, kLanes32 = 16, kWidth = kVectors * kLanes32, kMostRows = 6;
typedef int32_t Pair __attribute__((aligned(2), may_alias));  // 2 numbers of a that follow each other in depth

// Each sum goes through depth pair by pair, however many rows there are.
template <size_t M>
void block(float* c, const uint16_t* a, size_t a_row, const uint16_t* panel, size_t pairs) {
  __m512 sums[M][kVectors];
  TRANSOM_UNROLL
  for (size_t m = 0; m < M; ++m) {
    TRANSOM_UNROLL
    for (size_t v = 0; v < kVectors; ++v) sums[m][v] = _mm512_setzero_ps();
  }
  for (size_t k = 0; k < pairs; ++k, panel += 2 * kWidth) {
    __m512bh weights[kVectors];
    TRANSOM_UNROLL
    for (size_t v = 0; v < kVectors; ++v) {
      weights[v] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(panel + v * 32));
      _mm_prefetch(reinterpret_cast<const char*>(panel + 16 * 2 * kWidth + v * 32), _MM_HINT_T0);
    }
    TRANSOM_UNROLL
    for (size_t m = 0; m < M; ++m) {
      const auto left = reinterpret_cast<__m512bh>(_mm512_set1_epi32(reinterpret_cast<const Pair*>(a + m * a_row)[k]));
      TRANSOM_UNROLL
      for (size_t v = 0; v < kVectors; ++v) sums[m][v] = _mm512_dpbf16_ps(sums[m][v], left, weights[v]);
    }
  }
  TRANSOM_UNROLL
  for (size_t m = 0; m < M; ++m) {
    TRANSOM_UNROLL
    for (size_t v = 0; v < kVectors; ++v) _mm512_storeu_ps(c + m * kWidth + v * kLanes32, sums[m][v]);
  }
}

void multiply(float* c, const uint16_t* a, size_t a_row, const uint16_t* panel, size_t rows, size_t pairs) {
  switch (rows) {
    case 1:
      return block<1>(c, a, a_row, panel, pairs);
    case 2:
      return block<2>(c, a, a_row, panel, pairs);
    case 3:
      return block<3>(c, a, a_row, panel, pairs);
    case 4:
      return block<4>(c, a, a_row, panel, pairs);
    case 5:
      return block<5>(c, a, a_row, panel, pairs);
    case 6:
      return block<6>(c, a, a_row, panel, pairs);
    default:
      return;
  }
}

}  // namespace

void fill_pair_rows(PairRows& table) { table = {kWidth, kMostRows, multiply}; }

}  // namespace transom::cpu::TRANSOM_LEVEL
