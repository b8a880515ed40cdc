// SPDX-License-Identifier: Apache-2.0
// Rows of words that become columns, sixteen at a time; for the levels that have AVX-512.
#pragma once

#include <immintrin.h>

#include "cpu/vector/level.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

// Rows and columns change places: in four steps, blocks of `step` beside the diagonal do.
template <int step>
inline void exchange(__m512i (&rows)[16]) {
  const __m512i count = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __mmask16 second = _mm512_test_epi32_mask(count, _mm512_set1_epi32(step));
  const __m512i shift = _mm512_set1_epi32(step), other = _mm512_set1_epi32(16);
  // Of two rows, what lies `step` before in the second, and after in the first.
  const __m512i upper = _mm512_mask_add_epi32(count, second, _mm512_maskz_sub_epi32(0xFFFF, count, shift), other);
  const __m512i lower = _mm512_mask_add_epi32(_mm512_maskz_add_epi32(0xFFFF, count, shift), second, count, other);
  TRANSOM_UNROLL
  for (int i = 0; i < 16; ++i) {
    if (i & step) continue;
    const __m512i first = rows[i], last = rows[i + step];
    rows[i] = _mm512_permutex2var_epi32(first, upper, last);
    rows[i + step] = _mm512_permutex2var_epi32(first, lower, last);
  }
}

// n rows of w words, `row_bytes` apart, become w rows of 16 words.
inline void transpose_words(uint32_t* to, const char* from, size_t row_bytes, size_t n, size_t w) {
  __m512i rows[16];
  const auto there = static_cast<__mmask16>((1u << w) - 1);
  TRANSOM_UNROLL
  for (size_t i = 0; i < 16; ++i)
    rows[i] = i < n ? _mm512_maskz_loadu_epi32(there, from + i * row_bytes) : _mm512_setzero_si512();
  exchange<8>(rows);
  exchange<4>(rows);
  exchange<2>(rows);
  exchange<1>(rows);
  for (size_t i = 0; i < w; ++i) _mm512_storeu_si512(to + i * 16, rows[i]);
}

}  // namespace
}  // namespace transom::cpu::TRANSOM_LEVEL
