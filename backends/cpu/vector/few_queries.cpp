// SPDX-License-Identifier: Apache-2.0
#include "cpu/vector/few_queries.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "cpu/vector/half.h"
#include "cpu/vector/level.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

#if defined(__AVX512F__)
constexpr size_t kWidth = 16;
#elif defined(__AVX2__)
constexpr size_t kWidth = 8;
#else
constexpr size_t kWidth = 4;
#endif
typedef float Floats __attribute__((vector_size(kWidth * 4)));
typedef float LooseFloats __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));
typedef uint32_t Words __attribute__((vector_size(kWidth * 4)));
typedef uint16_t LooseHalves __attribute__((vector_size(kWidth * 2), aligned(2), may_alias));

inline Floats all(float x) { return Floats{} + x; }

// Numbers of one storage type, some at once or one.
struct F32 {
  typedef float Element;
  static Floats load(const float* at) { return *reinterpret_cast<const LooseFloats*>(at); }
  static float one(const float* at) { return *at; }
};
struct BF16 {
  typedef uint16_t Element;
  static Floats load(const uint16_t* at) {
    const Words wide = __builtin_convertvector(*reinterpret_cast<const LooseHalves*>(at), Words) << 16;
    return reinterpret_cast<Floats>(wide);
  }
  static float one(const uint16_t* at) { return bf16_to_float(*at); }
};
struct F16 {
  typedef uint16_t Element;
  static Floats load(const uint16_t* at) {
#if defined(__AVX512F__)
    return _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
#elif defined(__AVX2__)
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
#else
    Floats made;
    for (size_t i = 0; i < kWidth; ++i) made[i] = f16_to_float(at[i]);
    return made;
#endif
  }
  static float one(const uint16_t* at) { return f16_to_float(*at); }
};

inline float sum_of(Floats x) {
#if defined(__AVX512F__)
  const __m256 low = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_maskz_extractf32x8_ps(0xFF, x, 1));
#elif defined(__AVX2__)
  const __m256 low = x;
#endif
#if defined(__AVX2__)
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(low), _mm256_extractf128_ps(low, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
#else
  return (x[0] + x[2]) + (x[1] + x[3]);
#endif
}

// sum + x y, rounded once where the processor can: written out, since a compiler's choice may differ with R.
inline float added(float sum, float x, float y) {
#if defined(__FMA__)
  return __builtin_fmaf(x, y, sum);
#else
  return sum + x * y;
#endif
}

// So many rows of keys or values on: a head's part of a row is too short for the processor to guess where the next one
// lies.
constexpr size_t kRowsAhead = 8;

template <typename T>
inline void prefetch_row(const typename T::Element* row, size_t width) {
  constexpr size_t kLine = 64 / sizeof(typename T::Element);
  for (size_t i = 0; i < width; i += kLine) __builtin_prefetch(row + i);
}

// R queries and U keys.
template <typename T, size_t R, size_t U>
void score_block(float* scores, size_t row, const float* q, const typename T::Element* k, size_t stride, size_t width) {
  Floats sums[R][U];
  TRANSOM_UNROLL
  for (size_t r = 0; r < R; ++r) TRANSOM_UNROLL
  for (size_t u = 0; u < U; ++u) sums[r][u] = Floats{};
  size_t i = 0;
  for (; i + kWidth <= width; i += kWidth) {
    Floats keys[U];
    TRANSOM_UNROLL
    for (size_t u = 0; u < U; ++u) keys[u] = T::load(k + u * stride + i);
    TRANSOM_UNROLL
    for (size_t r = 0; r < R; ++r) {
      const Floats query = F32::load(q + r * width + i);
      TRANSOM_UNROLL
      for (size_t u = 0; u < U; ++u) sums[r][u] += query * keys[u];
    }
  }
  TRANSOM_UNROLL
  for (size_t r = 0; r < R; ++r) TRANSOM_UNROLL
  for (size_t u = 0; u < U; ++u) {
    float sum = sum_of(sums[r][u]);
    for (size_t j = i; j < width; ++j) sum = added(sum, q[r * width + j], T::one(k + u * stride + j));
    scores[r * row + u] = sum;
  }
}

template <typename T, size_t R>
void score_rows(float* scores, size_t row, const float* q, const StoredRows& keys) {
  constexpr size_t kKeys = R == 1 ? 4 : 2;
  const auto* k = static_cast<const typename T::Element*>(keys.first);
  size_t s = 0;
  for (; s + kKeys <= keys.n; s += kKeys) {
    if (s + kRowsAhead + kKeys <= keys.n)
      for (size_t u = 0; u < kKeys; ++u) prefetch_row<T>(k + (s + kRowsAhead + u) * keys.stride, keys.width);
    score_block<T, R, kKeys>(scores + s, row, q, k + s * keys.stride, keys.stride, keys.width);
  }
  for (; s < keys.n; ++s) score_block<T, R, 1>(scores + s, row, q, k + s * keys.stride, keys.stride, keys.width);
}

template <typename T>
void all_scores(float* scores, size_t row, const float* q, size_t count, const StoredRows& keys) {
  size_t i = 0;
  for (; i + 4 <= count; i += 4) score_rows<T, 4>(scores + i * row, row, q + i * keys.width, keys);
  for (; i < count; ++i) score_rows<T, 1>(scores + i * row, row, q + i * keys.width, keys);
}

// R rows of weights, C registers of columns.
template <typename T, size_t R, size_t C>
void mix_block(float* y, const float* weights, size_t row, const typename T::Element* v, size_t stride, size_t n,
               size_t width) {
  Floats sums[R][C];
  TRANSOM_UNROLL
  for (size_t r = 0; r < R; ++r) TRANSOM_UNROLL
  for (size_t c = 0; c < C; ++c) sums[r][c] = Floats{};
  for (size_t s = 0; s < n; ++s) {
    if (s + kRowsAhead < n) prefetch_row<T>(v + (s + kRowsAhead) * stride, C * kWidth);
    Floats values[C];
    TRANSOM_UNROLL
    for (size_t c = 0; c < C; ++c) values[c] = T::load(v + s * stride + c * kWidth);
    TRANSOM_UNROLL
    for (size_t r = 0; r < R; ++r) {
      const Floats weight = all(weights[r * row + s]);
      TRANSOM_UNROLL
      for (size_t c = 0; c < C; ++c) sums[r][c] += weight * values[c];
    }
  }
  TRANSOM_UNROLL
  for (size_t r = 0; r < R; ++r) TRANSOM_UNROLL
  for (size_t c = 0; c < C; ++c) *reinterpret_cast<LooseFloats*>(y + r * width + c * kWidth) = sums[r][c];
}

template <typename T, size_t R>
void mix_rows(float* y, const float* weights, size_t row, const StoredRows& values) {
  const auto* v = static_cast<const typename T::Element*>(values.first);
  const size_t width = values.width;
  size_t i = 0;
  for (; i + 4 * kWidth <= width; i += 4 * kWidth)
    mix_block<T, R, 4>(y + i, weights, row, v + i, values.stride, values.n, width);
  for (; i + kWidth <= width; i += kWidth)
    mix_block<T, R, 1>(y + i, weights, row, v + i, values.stride, values.n, width);
  for (; i < width; ++i)
    for (size_t r = 0; r < R; ++r) {
      float sum = 0;
      for (size_t s = 0; s < values.n; ++s) sum = added(sum, weights[r * row + s], T::one(v + s * values.stride + i));
      y[r * width + i] = sum;
    }
}

template <typename T>
void all_mixed(float* y, const float* weights, size_t row, size_t count, const StoredRows& values) {
  constexpr size_t kTogether = kWidth == 16 ? 4 : 2;  // as many as there are registers for
  size_t i = 0;
  for (; i + kTogether <= count; i += kTogether)
    mix_rows<T, kTogether>(y + i * values.width, weights + i * row, row, values);
  for (; i < count; ++i) mix_rows<T, 1>(y + i * values.width, weights + i * row, row, values);
}

void scores(float* y, size_t row, const float* q, size_t count, const StoredRows& keys) {
  if (keys.type == StoredRows::kF32) all_scores<F32>(y, row, q, count, keys);
  else if (keys.type == StoredRows::kBF16) all_scores<BF16>(y, row, q, count, keys);
  else all_scores<F16>(y, row, q, count, keys);
}

void mix(float* y, const float* weights, size_t row, size_t count, const StoredRows& values) {
  if (values.type == StoredRows::kF32) all_mixed<F32>(y, weights, row, count, values);
  else if (values.type == StoredRows::kBF16) all_mixed<BF16>(y, weights, row, count, values);
  else all_mixed<F16>(y, weights, row, count, values);
}

}  // namespace

void fill_few_queries(FewQueries& table) { table = {scores, mix}; }

}  // namespace transom::cpu::TRANSOM_LEVEL
