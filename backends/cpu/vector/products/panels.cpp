// SPDX-License-Identifier: Apache-2.0
// Products of matrices that fit in the caches, as attention has them for each head: the right operand is brought into
// panels of one register's width, and a block of sums stays in registers while it goes through the depth.
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "cpu/vector/half.h"
#if defined(__AVX512F__)
#include "cpu/vector/products/word_transpose.h"
#endif

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

#if defined(__AVX512F__)
constexpr size_t kWidth = 16, kPanels = 4;
#elif defined(__AVX2__)
constexpr size_t kWidth = 8, kPanels = 2;
#else
constexpr size_t kWidth = 4, kPanels = 2;
#endif
typedef float Vector __attribute__((vector_size(kWidth * sizeof(float)), aligned(4), may_alias));
typedef uint32_t Word __attribute__((aligned(2), may_alias));

// How many rows of a block: the sums, a register of each panel and one of the left operand fill the registers.
constexpr size_t rows_of(size_t panels) { return panels == 4 ? 6 : panels == 2 && kPanels == 2 ? 6 : 8; }

// What a word of depth holds.
struct OneF32 {
  using Number = float;
  static constexpr size_t kNumbers = 1;
  static Vector add_product(Vector sum, uint32_t a, const uint32_t* b) {
    return sum + as_float(a) * *reinterpret_cast<const Vector*>(b);
  }
  static uint32_t word(const float* p, size_t) { return as_bits(*p); }
};
#if defined(__AVX512BF16__)
struct TwoBF16 {
  using Number = uint16_t;
  static constexpr size_t kNumbers = 2;
  static Vector add_product(Vector sum, uint32_t a, const uint32_t* b) {
    return reinterpret_cast<Vector>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(sum),
                                                     reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a))),
                                                     reinterpret_cast<__m512bh>(_mm512_loadu_si512(b))));
  }
  // Two numbers that lie `apart` elements from each other.
  static uint32_t word(const uint16_t* p, size_t apart) { return p[0] | static_cast<uint32_t>(p[apart]) << 16; }
};
#endif

template <typename Type>
constexpr size_t words_of(size_t depth) {
  return (depth + Type::kNumbers - 1) / Type::kNumbers;
}

// ---- packing. Panel p holds columns [p width, (p + 1) width), [words, width]; columns and numbers that are not there
// are 0.

// b [depth, columns]
template <typename Type>
void pack(uint32_t* panels, const void* b, size_t row, size_t depth, size_t columns) {
  using Number = typename Type::Number;
  auto* from = static_cast<const Number*>(b);
  for (size_t begin = 0; begin < columns; begin += kWidth) {
    const size_t n = columns - begin < kWidth ? columns - begin : kWidth;
    for (size_t k = 0; k < depth; k += Type::kNumbers, panels += kWidth) {
      const Number* source = from + k * row + begin;
      const bool whole = k + Type::kNumbers <= depth;
      if (n == kWidth && whole) {
        TRANSOM_SIMD
        for (size_t i = 0; i < kWidth; ++i) panels[i] = Type::word(source + i, row);
        continue;
      }
      for (size_t i = 0; i < kWidth; ++i) {
        const Number none[2] = {i < n ? source[i] : Number{0}, Number{0}};
        panels[i] = i < n && whole ? Type::word(source + i, row) : Type::word(none, 1);
      }
    }
  }
}

#if !defined(__AVX512F__)
inline void transpose_words(uint32_t* to, const char* from, size_t row_bytes, size_t n, size_t w) {
  for (size_t k = 0; k < w; ++k)
    for (size_t i = 0; i < kWidth; ++i)
      to[k * kWidth + i] = i < n ? *reinterpret_cast<const Word*>(from + i * row_bytes + k * sizeof(Word)) : 0;
}
#endif

// b [columns, depth]
template <typename Type>
void pack_transposed(uint32_t* panels, const void* b, size_t row, size_t depth, size_t columns) {
  using Number = typename Type::Number;
  const size_t row_bytes = row * sizeof(Number), words = words_of<Type>(depth), whole = depth / Type::kNumbers;
  for (size_t begin = 0; begin < columns; begin += kWidth, panels += words * kWidth) {
    const size_t n = columns - begin < kWidth ? columns - begin : kWidth;
    auto* from = static_cast<const char*>(b) + begin * row_bytes;
    for (size_t k = 0; k < whole; k += kWidth)
      transpose_words(panels + k * kWidth, from + k * sizeof(Word), row_bytes, n,
                      whole - k < kWidth ? whole - k : kWidth);
    if (whole == words) continue;
    for (size_t i = 0; i < kWidth; ++i) {
      const Number none[2] = {i < n ? reinterpret_cast<const Number*>(from + i * row_bytes)[depth - 1] : Number{0},
                              Number{0}};
      panels[whole * kWidth + i] = Type::word(none, 1);
    }
  }
}

// ---- products

// M rows of a with P panels.
template <typename Type, size_t M, size_t P>
void block(float* c, size_t c_row, const Word* a, size_t a_row, const uint32_t* panels, size_t words) {
  Vector sums[M][P] = {};
  for (size_t k = 0; k < words; ++k) {
    TRANSOM_UNROLL
    for (size_t m = 0; m < M; ++m) {
      const uint32_t left = a[m * a_row + k];
      TRANSOM_UNROLL
      for (size_t p = 0; p < P; ++p)
        sums[m][p] = Type::add_product(sums[m][p], left, panels + (p * words + k) * kWidth);
    }
  }
  TRANSOM_UNROLL
  for (size_t m = 0; m < M; ++m) {
    TRANSOM_UNROLL
    for (size_t p = 0; p < P; ++p) *reinterpret_cast<Vector*>(c + m * c_row + p * kWidth) = sums[m][p];
  }
}

// The last block may do rows again that the one before it did: they come out the same.
template <typename Type, size_t P>
void all_rows(float* c, size_t c_row, const Word* a, size_t a_row, const uint32_t* panels, size_t m, size_t words) {
  constexpr size_t kRows = rows_of(P);
  if (m < kRows) {
    for (size_t i = 0; i < m; ++i) block<Type, 1, P>(c + i * c_row, c_row, a + i * a_row, a_row, panels, words);
    return;
  }
  for (size_t i = 0; i < m; i += kRows) {
    const size_t first = m - i < kRows ? m - kRows : i;
    block<Type, kRows, P>(c + first * c_row, c_row, a + first * a_row, a_row, panels, words);
  }
}

template <typename Type>
void multiply(float* c, size_t c_row, const void* a, size_t a_row, const uint32_t* panels, size_t m, size_t columns,
              size_t depth) {
  const size_t words = words_of<Type>(depth), row = a_row / Type::kNumbers;
  auto* left = static_cast<const Word*>(a);
  for (size_t count = (columns + kWidth - 1) / kWidth; count > 0;) {
    const size_t together = count < kPanels ? count : kPanels;
    if (together == 1) all_rows<Type, 1>(c, c_row, left, row, panels, m, words);
    else if (together == 2) all_rows<Type, 2>(c, c_row, left, row, panels, m, words);
#if defined(__AVX512F__)
    else if (together == 3) all_rows<Type, 3>(c, c_row, left, row, panels, m, words);
    else all_rows<Type, 4>(c, c_row, left, row, panels, m, words);
#endif
    c += together * kWidth;
    panels += together * words * kWidth;
    count -= together;
  }
}

#if defined(__AVX512BF16__)
// The processor's own rounding makes subnormal numbers 0.
void round_numbers(uint16_t* y, const float* x, size_t n) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i),
                        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i))));
  for (; i < n; ++i) y[i] = float_to_bf16(x[i]);
}
#endif

}  // namespace

void fill_panels(VectorKernels& kernels) {
  kernels.panels_f32 = {kWidth, pack<OneF32>, pack_transposed<OneF32>, multiply<OneF32>, nullptr};
#if defined(__AVX512BF16__)
  kernels.panels_bf16 = {kWidth, pack<TwoBF16>, pack_transposed<TwoBF16>, multiply<TwoBF16>, round_numbers};
#endif
}

}  // namespace transom::cpu::TRANSOM_LEVEL
