// SPDX-License-Identifier: Apache-2.0
#include "cpu/vector/products/byte_rows.h"

#include <immintrin.h>

#include "cpu/vector/level.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

constexpr size_t kVectors = 4, kLanes32 = 16, kWidth = kVectors * kLanes32;
typedef int32_t Group __attribute__((aligned(1), may_alias));  // 4 numbers of a that follow each other in depth

// How sums leave the registers: `row` of the rows, `v` of the panel's vectors.
struct Integers {
  void store(int32_t* to, __m512i sums, size_t, size_t) const { _mm512_storeu_si512(to, sums); }
  Integers behind(size_t) const { return {}; }
};

inline __m512 as_floats(__m512i sums) {
  asm("" : "+v"(sums));  // else g++ 12 keeps sums in memory during the loop
  return _mm512_cvtepi32_ps(sums);
}

struct Floats {
  void store(float* to, __m512i sums, size_t, size_t) const { _mm512_storeu_ps(to, as_floats(sums)); }
  Floats behind(size_t) const { return {}; }
};

// As dequantize_row has them.
struct Scaled {
  const float *row_scales, *scales, *bias;

  void store(float* to, __m512i sums, size_t row, size_t v) const {
    const __m512 value = as_floats(sums),
                 scale = _mm512_mul_ps(_mm512_set1_ps(row_scales[row]), _mm512_loadu_ps(scales + v * kLanes32));
    _mm512_storeu_ps(
        to, bias ? _mm512_fmadd_ps(value, scale, _mm512_loadu_ps(bias + v * kLanes32)) : _mm512_mul_ps(value, scale));
  }
  Scaled behind(size_t rows) const { return {row_scales + rows, scales, bias}; }
};

// `a` may lie at any address: it is read in words of four bytes.
template <size_t M, bool kLess, typename Result, typename End>
void block(Result* c, size_t c_row, const uint8_t* a, size_t a_row, const int8_t* panel, size_t groups,
           const int32_t* surplus, const End& end) {
  __m512i sums[M][kVectors];
  TRANSOM_UNROLL
  for (size_t m = 0; m < M; ++m) {
    TRANSOM_UNROLL
    for (size_t v = 0; v < kVectors; ++v)
      sums[m][v] = kLess ? _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_loadu_si512(surplus + v * kLanes32))
                         : _mm512_setzero_si512();
  }
  for (size_t k = 0; k < groups; ++k) {
    const int8_t* from = panel + k * kWidth * 4;
    _mm_prefetch(reinterpret_cast<const char*>(from + 16 * kWidth * 4), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(from + 16 * kWidth * 4 + 64), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(from + 16 * kWidth * 4 + 128), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(from + 16 * kWidth * 4 + 192), _MM_HINT_T0);
    __m512i weights[kVectors];
    TRANSOM_UNROLL
    for (size_t v = 0; v < kVectors; ++v) {
      weights[v] = _mm512_loadu_si512(from + v * 64);
      if (M > 1) asm("" : "+v"(weights[v]));  // else g++ 12 reads them again for each of two or three rows
    }
    TRANSOM_UNROLL
    for (size_t m = 0; m < M; ++m) {
      const __m512i left = _mm512_set1_epi32(reinterpret_cast<const Group*>(a + m * a_row)[k]);
      TRANSOM_UNROLL
      for (size_t v = 0; v < kVectors; ++v) sums[m][v] = _mm512_dpbusd_epi32(sums[m][v], left, weights[v]);
    }
  }
  TRANSOM_UNROLL
  for (size_t m = 0; m < M; ++m) {
    TRANSOM_UNROLL
    for (size_t v = 0; v < kVectors; ++v) end.store(c + m * c_row + v * kLanes32, sums[m][v], m, v);
  }
}

template <bool kLess, typename Result, typename End>
void multiply_rows(Result* c, size_t c_row, const uint8_t* a, size_t a_row, const int8_t* panel, size_t rows,
                   size_t groups, const int32_t* surplus, End end) {
  // Equal blocks: one of fewer than five rows waits for the second cache, whence it reads its weights.
  for (size_t blocks = (rows + 5) / 6; blocks > 0; --blocks) {
    const size_t together = (rows + blocks - 1) / blocks;
    switch (together) {
      case 6:
        block<6, kLess>(c, c_row, a, a_row, panel, groups, surplus, end);
        break;
      case 5:
        block<5, kLess>(c, c_row, a, a_row, panel, groups, surplus, end);
        break;
      case 4:
        block<4, kLess>(c, c_row, a, a_row, panel, groups, surplus, end);
        break;
      case 3:
        block<3, kLess>(c, c_row, a, a_row, panel, groups, surplus, end);
        break;
      case 2:
        block<2, kLess>(c, c_row, a, a_row, panel, groups, surplus, end);
        break;
      default:
        block<1, kLess>(c, c_row, a, a_row, panel, groups, surplus, end);
    }
    end = end.behind(together);
    c += together * c_row;
    a += together * a_row;
    rows -= together;
  }
}

void multiply(int32_t* c, size_t c_row, const uint8_t* a, size_t a_row, const int8_t* panel, size_t rows,
              size_t groups) {
  multiply_rows<false>(c, c_row, a, a_row, panel, rows, groups, nullptr, Integers{});
}

void multiply_to_floats(float* c, size_t c_row, const uint8_t* a, size_t a_row, const int8_t* panel, size_t rows,
                        size_t groups, const int32_t* surplus) {
  if (surplus) multiply_rows<true>(c, c_row, a, a_row, panel, rows, groups, surplus, Floats{});
  else multiply_rows<false>(c, c_row, a, a_row, panel, rows, groups, nullptr, Floats{});
}

void multiply_scaled(float* c, size_t c_row, const uint8_t* a, size_t a_row, const int8_t* panel, size_t rows,
                     size_t groups, const int32_t* surplus, const float* row_scales, const float* scales,
                     const float* bias) {
  multiply_rows<true>(c, c_row, a, a_row, panel, rows, groups, surplus, Scaled{row_scales, scales, bias});
}

}  // namespace

void fill_byte_rows(ByteRows& table) { table = {kWidth, multiply, multiply_to_floats, multiply_scaled}; }

}  // namespace transom::cpu::TRANSOM_LEVEL
