// SPDX-License-Identifier: Apache-2.0
#include "cpu/vector/products/row_products.h"

#include "cpu/vector/lanes.h"
#include "cpu/vector/storage.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

#if defined(__AVX512F__)
constexpr size_t kRegisters = 32;
#else
constexpr size_t kRegisters = 16;
#endif

// ---- products with panels

constexpr size_t kPanel = kRegisters == 32 ? 4 : 2;  // registers: so many columns are one stream of memory

// What a block brings into the caches for later: numbers that are `depth` further on in its panels and, behind their
// end, those of panels that are `panels` further on; nothing where both are 0.
struct Fetch {
  size_t depth = 0, panels = 0;
};

// M rows with P registers of columns, which stand side by side in panels of kPanel; numbers of one k lie `k_step`
// behind those of the k before. The sums stay in registers.
template <typename Stored, size_t M, size_t P>
void product_block(float* c, size_t c_row, const float* a, size_t a_row, const typename Stored::Number* b,
                   size_t panel_step, size_t k_step, const float* bias, size_t depth, bool add, Fetch fetch = {}) {
  Vector sums[M][P];
  TRANSOM_UNROLL
  for (size_t m = 0; m < M; ++m) {
    TRANSOM_UNROLL
    for (size_t p = 0; p < P; ++p)
      sums[m][p] = add ? *reinterpret_cast<const Vector*>(c + m * c_row + p * kWidth) : Vector{};
  }
  constexpr size_t kLine = 64 / sizeof(typename Stored::Number);  // numbers
  constexpr size_t kTogether = (P < kPanel ? P : kPanel) * kWidth, kPanels = (P + kPanel - 1) / kPanel;
  constexpr size_t kLines = kTogether > kLine ? kTogether / kLine : 1,
                   kOfLine = kTogether < kLine ? kLine / kTogether : 1;
  const bool fetches = fetch.depth + fetch.panels > 0;
  const size_t turn = depth > fetch.depth ? depth - fetch.depth : 0;
  for (size_t k = 0; k < depth; ++k) {
    if (fetches && k % kOfLine == 0) {
      const auto* from =
          k < turn ? b + (k + fetch.depth) * k_step : b + fetch.panels * panel_step + (k - turn) * k_step;
      TRANSOM_UNROLL
      for (size_t i = 0; i < kPanels * kLines; ++i)
        __builtin_prefetch(from + i / kLines * panel_step + i % kLines * kLine);
    }
    const auto right = [&](size_t p) {
      return Stored::load(b + p / kPanel * panel_step + p % kPanel * kWidth + k * k_step);
    };
    if constexpr (M < P) {
      float left[M];
      TRANSOM_UNROLL
      for (size_t m = 0; m < M; ++m) left[m] = a[m * a_row + k];
      TRANSOM_UNROLL
      for (size_t p = 0; p < P; ++p) {
        const Vector numbers = right(p);
        TRANSOM_UNROLL
        for (size_t m = 0; m < M; ++m) sums[m][p] += left[m] * numbers;
      }
    } else {
      Vector numbers[P];
      TRANSOM_UNROLL
      for (size_t p = 0; p < P; ++p) numbers[p] = right(p);
      TRANSOM_UNROLL
      for (size_t m = 0; m < M; ++m) {
        const float left = a[m * a_row + k];
        TRANSOM_UNROLL
        for (size_t p = 0; p < P; ++p) sums[m][p] += left * numbers[p];
      }
    }
  }
  if (bias) {
    TRANSOM_UNROLL
    for (size_t p = 0; p < P; ++p) {
      const Vector shift = StoredF32::load(bias + p * kWidth);
      TRANSOM_UNROLL
      for (size_t m = 0; m < M; ++m) sums[m][p] += shift;
    }
  }
  TRANSOM_UNROLL
  for (size_t m = 0; m < M; ++m) {
    TRANSOM_UNROLL
    for (size_t p = 0; p < P; ++p) *reinterpret_cast<Vector*>(c + m * c_row + p * kWidth) = sums[m][p];
  }
}

// Operands of multiply(), registers of columns in place of columns.
template <typename Number>
struct Operands {
  float* c;
  size_t c_row;
  const float* a;
  size_t a_row;
  const Number* b;
  size_t panel_step;
  const float* bias;
  size_t registers, depth;
  bool add;
};

// M rows with the registers of columns from `first` on: P at once, as many as leave enough sums to hide the latency of
// an addition and no more than there are registers, and half as many of what is left.
template <typename Stored, size_t M, size_t P>
void rows_of_products(const Operands<typename Stored::Number>& o, Fetch fetch, size_t first = 0) {
  if (sizeof(typename Stored::Number) == 2 && fetch.depth > 0) fetch.panels = P > kPanel ? P / kPanel : 1;
  const size_t k_step = (o.registers < kPanel ? o.registers : kPanel) * kWidth;
  for (; first + P <= o.registers; first += P)
    product_block<Stored, M, P>(o.c + first * kWidth, o.c_row, o.a, o.a_row,
                                o.b + first / kPanel * o.panel_step + first % kPanel * kWidth, o.panel_step, k_step,
                                o.bias ? o.bias + first * kWidth : nullptr, o.depth, o.add, fetch);
  if constexpr (P > 1)
    if (first < o.registers) rows_of_products<Stored, M, P / 2>(o, fetch, first);
}

template <typename Stored>
void multiply(float* c, size_t c_row, const float* a, size_t a_row, const void* panels, size_t panel_step,
              const float* bias, size_t m, size_t columns, size_t depth, bool add) {
  using Number = typename Stored::Number;
  constexpr bool kMany = kRegisters == 32, kHalf = sizeof(Number) == 2;
  // Numbers of 16 bits are widened for each block anew: the more rows it has, the less that takes.
  constexpr size_t kMost = kMany && kHalf ? 8 : 6;
  // Of a panel, which is read as one stream, the processor alone fetches too little. Numbers of 16 bits come here for
  // few rows alone, which are done with them soon. The first block of rows fetches what it reads next, the others find
  // it in the second cache and fetch the panels that come after these. Numbers of f32 lie in the second cache while the
  // rows go by: each block fetches what it reads next into the first, and at the end what the next block begins with.
  constexpr size_t kAhead = kHalf ? 4096 / (kWidth * sizeof(Number)) : 2048 / (kPanel * kWidth * sizeof(Number));
  Fetch fetch{.depth = kAhead};
  Operands<Number> o{c,     c_row, a, a_row, static_cast<const Number*>(panels), panel_step, bias, columns / kWidth,
                     depth, add};
  while (m > 0) {
    // Blocks of much the same size: of a row or two that are left over, sums are too few to hide the latency.
    const size_t blocks = (m + kMost - 1) / kMost, rows = (m + blocks - 1) / blocks;
    switch (rows) {
      case 1:
        rows_of_products<Stored, 1, 8>(o, fetch);
        break;
      case 2:
        rows_of_products<Stored, 2, 4>(o, fetch);
        break;
      case 3:
        rows_of_products<Stored, 3, 4>(o, fetch);
        break;
      case 4:
        rows_of_products<Stored, 4, kPanel>(o, fetch);
        break;
      case 5:
        rows_of_products<Stored, 5, kPanel>(o, fetch);
        break;
      case 6:
        rows_of_products<Stored, 6, kPanel>(o, fetch);
        break;
      default:
        if constexpr (kMost == 8) {
          if (rows == 7) rows_of_products<Stored, 7, 2>(o, fetch);
          else rows_of_products<Stored, 8, 2>(o, fetch);
        }
    }
    o.c += rows * c_row, o.a += rows * a_row, m -= rows;
    if (kHalf) fetch = {.panels = (o.registers + kPanel - 1) / kPanel};
  }
}

// ---- attention

// Where the compiler makes vectors of a loop, it may round the product of a x b + c and elsewhere not: said here once.
inline float add_product(float a, float b, float c) {
#if defined(__FMA__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

#if defined(__AVX2__)
inline __m128 four_sums(Vector x) {
#if defined(__AVX512F__)
  const auto all = reinterpret_cast<__m512>(x);
  const __m256 half = _mm512_castps512_ps256(all) + _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(all), 1));
#else
  const auto half = reinterpret_cast<__m256>(x);
#endif
  return _mm256_castps256_ps128(half) + _mm256_extractf128_ps(half, 1);
}
#endif

// The sums of the elements of S vectors, halves with halves as sum_of.
template <size_t S>
inline void sums_of_elements(float* sums, const Vector (&x)[S]) {
#if defined(__AVX2__)
  if constexpr (S == 4) {  // together they take a third of the instructions
    const __m128 a = four_sums(x[0]), b = four_sums(x[1]), c = four_sums(x[2]), d = four_sums(x[3]);
    const __m128 ab = _mm_movelh_ps(a, b) + _mm_movehl_ps(b, a), cd = _mm_movelh_ps(c, d) + _mm_movehl_ps(d, c);
    _mm_storeu_ps(sums, _mm_shuffle_ps(ab, cd, 0x88) + _mm_shuffle_ps(ab, cd, 0xDD));
    return;
  }
#endif
  for (size_t s = 0; s < S; ++s) sums[s] = sum_of(x[s]);
}

template <typename Stored, size_t R, size_t S>
void score_block(float* scores, size_t scores_row, const float* q, const typename Stored::Number* k, size_t key_step,
                 size_t depth) {
  Vector sums[R][S] = {};
  size_t i = 0;
  for (; i + kWidth <= depth; i += kWidth) {
    Vector keys[S];
    TRANSOM_UNROLL
    for (size_t s = 0; s < S; ++s) keys[s] = Stored::load(k + s * key_step + i);
    TRANSOM_UNROLL
    for (size_t r = 0; r < R; ++r) {
      const Vector query = StoredF32::load(q + r * depth + i);
      TRANSOM_UNROLL
      for (size_t s = 0; s < S; ++s) sums[r][s] += query * keys[s];
    }
  }
  TRANSOM_UNROLL
  for (size_t r = 0; r < R; ++r) {
    float* totals = scores + r * scores_row;
    sums_of_elements(totals, sums[r]);
    for (size_t s = 0; i < depth && s < S; ++s)
      for (size_t j = i; j < depth; ++j)
        totals[s] = add_product(q[r * depth + j], Stored::value(k[s * key_step + j]), totals[s]);
  }
}

// `S` keys with all rows of a head.
template <typename Stored, size_t S>
void scores_of_rows(float* out, size_t row, const float* q, size_t rows, const typename Stored::Number* k,
                    size_t key_step, size_t depth) {
  size_t r = 0;
  if constexpr (kRegisters == 32)
    for (; r + 4 <= rows; r += 4) score_block<Stored, 4, S>(out + r * row, row, q + r * depth, k, key_step, depth);
  for (; r + 2 <= rows; r += 2) score_block<Stored, 2, S>(out + r * row, row, q + r * depth, k, key_step, depth);
  for (; r < rows; ++r) score_block<Stored, 1, S>(out + r * row, row, q + r * depth, k, key_step, depth);
}

// Numbers of `keys` keys that are read later.
template <typename Number>
void fetch(const Number* next, size_t key_step, size_t keys, size_t width) {
  for (size_t s = 0; s < keys; ++s)
    for (size_t i = 0; i < width; i += 64 / sizeof(Number)) __builtin_prefetch(next + s * key_step + i, 0, 2);
}

template <typename Stored>
void scores(float* out, size_t out_head, size_t out_row, const float* q, size_t q_head, RowProducts::Heads heads,
            const void* k, size_t key_step, size_t keys, size_t depth) {
  using Number = typename Stored::Number;
  auto* from = static_cast<const Number*>(k);
  auto* next = static_cast<const Number*>(heads.next);
  size_t s = 0;
  for (; s + 4 <= keys; s += 4)
    for (size_t g = 0; g < heads.count; ++g) {
      const size_t at = s * key_step + g * heads.step;
      if (next) fetch(next + at, key_step, 4, depth);
      scores_of_rows<Stored, 4>(out + g * out_head + s, out_row, q + g * q_head, heads.rows, from + at, key_step,
                                depth);
    }
  for (; s < keys; ++s)
    for (size_t g = 0; g < heads.count; ++g)
      scores_of_rows<Stored, 1>(out + g * out_head + s, out_row, q + g * q_head, heads.rows,
                                from + s * key_step + g * heads.step, key_step, depth);
}

// R rows of a head: products with panels that lie side by side.
template <typename Stored, size_t R>
void mix_rows(float* y, size_t y_row, const float* weights, size_t weights_row, const typename Stored::Number* v,
              size_t value_step, size_t keys, size_t width) {
  size_t i = 0;
  for (; i + 4 * kWidth <= width; i += 4 * kWidth)
    product_block<Stored, R, 4>(y + i, y_row, weights, weights_row, v + i, kPanel * kWidth, value_step, nullptr, keys,
                                true);
  for (; i + kWidth <= width; i += kWidth)
    product_block<Stored, R, 1>(y + i, y_row, weights, weights_row, v + i, 0, value_step, nullptr, keys, true);
  for (; i < width; ++i)
    for (size_t r = 0; r < R; ++r) {
      float total = y[r * y_row + i];
      for (size_t s = 0; s < keys; ++s)
        total = add_product(weights[r * weights_row + s], Stored::value(v[s * value_step + i]), total);
      y[r * y_row + i] = total;
    }
}

template <typename Stored>
void mix(float* y, size_t y_head, size_t y_row, const float* weights, size_t weights_head, size_t weights_row,
         RowProducts::Heads heads, const void* v, size_t value_step, size_t keys, size_t width) {
  constexpr size_t kTogether = 8;  // keys: the sums of a head leave the registers between them
  constexpr size_t kRows = kRegisters == 32 ? 4 : 2;
  for (size_t s = 0; s < keys; s += kTogether) {
    const size_t some = keys - s < kTogether ? keys - s : kTogether;
    for (size_t g = 0; g < heads.count; ++g) {
      using Number = typename Stored::Number;
      const size_t at = s * value_step + g * heads.step;
      auto* from = static_cast<const Number*>(v) + at;
      if (heads.next) fetch(static_cast<const Number*>(heads.next) + at, value_step, some, width);
      float* own = y + g * y_head;
      const float* w = weights + g * weights_head + s;
      size_t r = 0;
      for (; r + kRows <= heads.rows; r += kRows)
        mix_rows<Stored, kRows>(own + r * y_row, y_row, w + r * weights_row, weights_row, from, value_step, some,
                                width);
      for (; r < heads.rows; ++r)
        mix_rows<Stored, 1>(own + r * y_row, y_row, w + r * weights_row, weights_row, from, value_step, some, width);
    }
  }
}

template <typename Stored>
void fill_storage(RowProducts& table, RowStorage storage) {
  table.multiply[storage] = multiply<Stored>;
  table.scores[storage] = scores<Stored>;
  table.mix[storage] = mix<Stored>;
}

}  // namespace

void fill_row_products(RowProducts& table) {
  table.lanes = kWidth, table.width = kPanel * kWidth;
  fill_storage<StoredF32>(table, kStoredF32);
  fill_storage<StoredBF16>(table, kStoredBF16);
  fill_storage<StoredF16>(table, kStoredF16);
}

}  // namespace transom::cpu::TRANSOM_LEVEL
