// SPDX-License-Identifier: Apache-2.0
#include "cpu/vector/products/pair_rows.h"

#include <immintrin.h>

#include "cpu/vector/level.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

constexpr size_t kVectors = 4, kLanes32 = 16, kWidth = kVectors * kLanes32, kMostRows = 6;
typedef int32_t Pair __attribute__((aligned(2), may_alias));  // 2 numbers of a that follow each other in depth

inline void store(float* to, __m512 sums) { _mm512_storeu_ps(to, sums); }
// As bf16_bits(): the processor's own rounding makes subnormal numbers 0.
inline void store(uint16_t* to, __m512 sums) {
  const __m512i bits = _mm512_castps_si512(sums), upper = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  const __m512i rounded =
      _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd), 16);
  const __mmask16 none = _mm512_cmp_ps_mask(sums, sums, _CMP_UNORD_Q);  // a NaN stays one
  const __m512i numbers = _mm512_mask_or_epi32(rounded, none, upper, _mm512_set1_epi32(0x40));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(numbers));
}

// Each sum goes through depth pair by pair, however many rows there are.
template <size_t M, typename Result>
void block(Result* c, size_t c_row, const uint16_t* a, size_t a_row, const uint16_t* panel, const float* bias,
           size_t pairs) {
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
  for (size_t v = 0; v < kVectors; ++v) {
    const __m512 shift = bias ? _mm512_loadu_ps(bias + v * kLanes32) : _mm512_setzero_ps();
    TRANSOM_UNROLL
    for (size_t m = 0; m < M; ++m)
      store(c + m * c_row + v * kLanes32, bias ? _mm512_add_ps(sums[m][v], shift) : sums[m][v]);
  }
}

template <typename Result>
void multiply(Result* c, size_t c_row, const uint16_t* a, size_t a_row, const uint16_t* panel, const float* bias,
              size_t rows, size_t pairs) {
  switch (rows) {
    case 1:
      return block<1>(c, c_row, a, a_row, panel, bias, pairs);
    case 2:
      return block<2>(c, c_row, a, a_row, panel, bias, pairs);
    case 3:
      return block<3>(c, c_row, a, a_row, panel, bias, pairs);
    case 4:
      return block<4>(c, c_row, a, a_row, panel, bias, pairs);
    case 5:
      return block<5>(c, c_row, a, a_row, panel, bias, pairs);
    case 6:
      return block<6>(c, c_row, a, a_row, panel, bias, pairs);
    default:
      return;
  }
}

}  // namespace

void fill_pair_rows(PairRows& table) { table = {kWidth, kMostRows, multiply<float>, multiply<uint16_t>}; }

}  // namespace transom::cpu::TRANSOM_LEVEL
