// SPDX-License-Identifier: Apache-2.0
#include "cpu/vector/transpose.h"

#include <immintrin.h>

#include "cpu/vector/level.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

#if defined(__AVX512F__)
constexpr size_t kSize = 16;

// Pairs of rows, then of pairs, then quarters of registers twice.
void transpose(uint32_t* to, size_t to_step, const uint32_t* from, size_t from_step) {
  __m512i a[16], b[16];
  TRANSOM_UNROLL
  for (size_t i = 0; i < 16; ++i) a[i] = _mm512_loadu_si512(from + i * from_step);
  TRANSOM_UNROLL
  for (size_t i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  }
  TRANSOM_UNROLL
  for (size_t i = 0; i < 16; i += 4) {  // a[i + j]: column j of each quarter, of four rows
    a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
    a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
    a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
    a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
  }
  TRANSOM_UNROLL
  for (size_t j = 0; j < 4; ++j) {
    const __m512i low = _mm512_shuffle_i32x4(a[j], a[4 + j], 0x44), high = _mm512_shuffle_i32x4(a[j], a[4 + j], 0xEE),
                  other_low = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0x44),
                  other_high = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0xEE);
    _mm512_storeu_si512(to + j * to_step, _mm512_shuffle_i32x4(low, other_low, 0x88));
    _mm512_storeu_si512(to + (4 + j) * to_step, _mm512_shuffle_i32x4(low, other_low, 0xDD));
    _mm512_storeu_si512(to + (8 + j) * to_step, _mm512_shuffle_i32x4(high, other_high, 0x88));
    _mm512_storeu_si512(to + (12 + j) * to_step, _mm512_shuffle_i32x4(high, other_high, 0xDD));
  }
}
#else
constexpr size_t kSize = 8;

void transpose(uint32_t* to, size_t to_step, const uint32_t* from, size_t from_step) {
  __m256i a[8], b[8];
  TRANSOM_UNROLL
  for (size_t i = 0; i < 8; ++i) a[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i * from_step));
  TRANSOM_UNROLL
  for (size_t i = 0; i < 8; i += 2) {
    b[i] = _mm256_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_epi32(a[i], a[i + 1]);
  }
  TRANSOM_UNROLL
  for (size_t i = 0; i < 8; i += 4) {
    a[i] = _mm256_unpacklo_epi64(b[i], b[i + 2]);
    a[i + 1] = _mm256_unpackhi_epi64(b[i], b[i + 2]);
    a[i + 2] = _mm256_unpacklo_epi64(b[i + 1], b[i + 3]);
    a[i + 3] = _mm256_unpackhi_epi64(b[i + 1], b[i + 3]);
  }
  TRANSOM_UNROLL
  for (size_t j = 0; j < 4; ++j) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + j * to_step), _mm256_permute2x128_si256(a[j], a[4 + j], 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (4 + j) * to_step),
                        _mm256_permute2x128_si256(a[j], a[4 + j], 0x31));
  }
}
#endif

}  // namespace

void fill_transposed_blocks(TransposedBlocks& table) { table = {kSize, transpose}; }

}  // namespace transom::cpu::TRANSOM_LEVEL
