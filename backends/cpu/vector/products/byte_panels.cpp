// SPDX-License-Identifier: Apache-2.0
// Exact products of 8-bit integers for processors without VNNI, whose one instruction for bytes (VPMADDUBSW) adds two
// products in 16 bits and saturates: bytes are read as such, widened to 16 bits in registers, and VPMADDWD adds pairs
// of products in 32 bits.
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "cpu/vector/level.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

#if defined(__AVX512BW__)
constexpr size_t kWidth = 16, kRows = 4, kPanels = 4;
typedef __m512i Sums;
inline Sums zero() { return _mm512_setzero_si512(); }
inline Sums widen(const int8_t* pairs) {
  return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(pairs)));
}
inline Sums add_products(Sums sums, int32_t a, Sums b) {
  return _mm512_add_epi32(sums, _mm512_madd_epi16(_mm512_set1_epi32(a), b));
}
inline void store(int32_t* to, Sums sums) { _mm512_storeu_si512(to, sums); }
#elif defined(__AVX2__)
constexpr size_t kWidth = 8, kRows = 4, kPanels = 2;
typedef __m256i Sums;
inline Sums zero() { return _mm256_setzero_si256(); }
inline Sums widen(const int8_t* pairs) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pairs)));
}
inline Sums add_products(Sums sums, int32_t a, Sums b) {
  return _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_set1_epi32(a), b));
}
inline void store(int32_t* to, Sums sums) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), sums); }
#else
constexpr size_t kWidth = 4, kRows = 4, kPanels = 1;
struct Sums {
  int32_t lanes[2 * kWidth];  // sums use the first half, widened pairs all
};
inline Sums zero() { return {}; }
inline Sums widen(const int8_t* pairs) {
  Sums made;
  for (size_t i = 0; i < 2 * kWidth; ++i) made.lanes[i] = pairs[i];
  return made;
}
inline Sums add_products(Sums sums, int32_t a, const Sums& b) {
  const auto first = static_cast<int16_t>(a), second = static_cast<int16_t>(a >> 16);
  for (size_t i = 0; i < kWidth; ++i) sums.lanes[i] += first * b.lanes[2 * i] + second * b.lanes[2 * i + 1];
  return sums;
}
inline void store(int32_t* to, const Sums& sums) {
  for (size_t i = 0; i < kWidth; ++i) to[i] = sums.lanes[i];
}
#endif

typedef int32_t Pair __attribute__((aligned(2), may_alias));  // two numbers of a that follow each other in depth

void pack(int8_t* panels, const int8_t* b, size_t depth, size_t columns) {
  for (size_t begin = 0; begin < columns; begin += kWidth)
    for (size_t k = 0; k < depth; k += 2)
      for (size_t i = begin; i < begin + kWidth; ++i)
        for (size_t j = k; j < k + 2; ++j) *panels++ = i < columns && j < depth ? b[j * columns + i] : int8_t{0};
}

// M rows of a with P panels.
template <size_t M, size_t P>
void block(int32_t* c, size_t c_row, const int16_t* a, size_t a_row, const int8_t* panels, size_t pairs) {
  Sums sums[M][P];
  TRANSOM_UNROLL
  for (size_t m = 0; m < M; ++m) {
    TRANSOM_UNROLL
    for (size_t p = 0; p < P; ++p) sums[m][p] = zero();
  }
  for (size_t k = 0; k < pairs; ++k) {
    Sums wide[P];
    TRANSOM_UNROLL
    for (size_t p = 0; p < P; ++p) wide[p] = widen(panels + (p * pairs + k) * 2 * kWidth);
    TRANSOM_UNROLL
    for (size_t m = 0; m < M; ++m) {
      const int32_t left = reinterpret_cast<const Pair*>(a + m * a_row)[k];
      TRANSOM_UNROLL
      for (size_t p = 0; p < P; ++p) sums[m][p] = add_products(sums[m][p], left, wide[p]);
    }
  }
  TRANSOM_UNROLL
  for (size_t m = 0; m < M; ++m) {
    TRANSOM_UNROLL
    for (size_t p = 0; p < P; ++p) store(c + m * c_row + p * kWidth, sums[m][p]);
  }
}

// The last block may do rows again that the one before it did: they come out the same.
template <size_t P>
void all_rows(int32_t* c, size_t c_row, const int16_t* a, size_t a_row, const int8_t* panels, size_t m, size_t pairs) {
  if (m < kRows) {
    for (size_t i = 0; i < m; ++i) block<1, P>(c + i * c_row, c_row, a + i * a_row, a_row, panels, pairs);
    return;
  }
  for (size_t i = 0; i < m; i += kRows) {
    const size_t first = m - i < kRows ? m - kRows : i;
    block<kRows, P>(c + first * c_row, c_row, a + first * a_row, a_row, panels, pairs);
  }
}

void multiply(int32_t* c, size_t c_row, const int16_t* a, size_t a_row, const int8_t* panels, size_t m, size_t columns,
              size_t depth) {
  const size_t pairs = (depth + 1) / 2;
  for (size_t count = (columns + kWidth - 1) / kWidth; count > 0;) {
    const size_t together = count < kPanels ? 1 : kPanels;
    if (together == 1) all_rows<1>(c, c_row, a, a_row, panels, m, pairs);
    else all_rows<kPanels>(c, c_row, a, a_row, panels, m, pairs);
    c += together * kWidth;
    panels += together * pairs * 2 * kWidth;
    count -= together;
  }
}

}  // namespace

void fill_byte_panels(VectorKernels& kernels) { kernels.byte_panels = {kWidth, pack, multiply}; }

}  // namespace transom::cpu::TRANSOM_LEVEL
