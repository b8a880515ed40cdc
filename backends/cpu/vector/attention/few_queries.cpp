// SPDX-License-Identifier: Apache-2.0
#include "cpu/vector/attention/few_queries.h"

#include "cpu/vector/lanes.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

inline Vector all(float x) { return Vector{} + x; }

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
inline void prefetch_row(const typename T::Number* row, size_t width) {
  constexpr size_t kLine = 64 / sizeof(typename T::Number);
  for (size_t i = 0; i < width; i += kLine) __builtin_prefetch(row + i);
}

// R queries and U keys.
template <typename T, size_t R, size_t U>
void score_block(float* scores, size_t row, const float* q, const typename T::Number* k, size_t stride, size_t width) {
  Vector sums[R][U];
  TRANSOM_UNROLL
  for (size_t r = 0; r < R; ++r) TRANSOM_UNROLL
  for (size_t u = 0; u < U; ++u) sums[r][u] = Vector{};
  size_t i = 0;
  for (; i + kWidth <= width; i += kWidth) {
    Vector keys[U];
    TRANSOM_UNROLL
    for (size_t u = 0; u < U; ++u) keys[u] = T::load(k + u * stride + i);
    TRANSOM_UNROLL
    for (size_t r = 0; r < R; ++r) {
      const Vector query = StoredF32::load(q + r * width + i);
      TRANSOM_UNROLL
      for (size_t u = 0; u < U; ++u) sums[r][u] += query * keys[u];
    }
  }
  TRANSOM_UNROLL
  for (size_t r = 0; r < R; ++r) TRANSOM_UNROLL
  for (size_t u = 0; u < U; ++u) {
    float sum = sum_of(sums[r][u]);
    for (size_t j = i; j < width; ++j) sum = added(sum, q[r * width + j], T::value(k[u * stride + j]));
    scores[r * row + u] = sum;
  }
}

template <typename T, size_t R>
void score_rows(float* scores, size_t row, const float* q, const StoredRows& keys) {
  constexpr size_t kKeys = R == 1 ? 4 : 2;
  const auto* k = static_cast<const typename T::Number*>(keys.first);
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
void mix_block(float* y, const float* weights, size_t row, const typename T::Number* v, size_t stride, size_t n,
               size_t width) {
  Vector sums[R][C];
  TRANSOM_UNROLL
  for (size_t r = 0; r < R; ++r) TRANSOM_UNROLL
  for (size_t c = 0; c < C; ++c) sums[r][c] = Vector{};
  for (size_t s = 0; s < n; ++s) {
    if (s + kRowsAhead < n) prefetch_row<T>(v + (s + kRowsAhead) * stride, C * kWidth);
    Vector values[C];
    TRANSOM_UNROLL
    for (size_t c = 0; c < C; ++c) values[c] = T::load(v + s * stride + c * kWidth);
    TRANSOM_UNROLL
    for (size_t r = 0; r < R; ++r) {
      const Vector weight = all(weights[r * row + s]);
      TRANSOM_UNROLL
      for (size_t c = 0; c < C; ++c) sums[r][c] += weight * values[c];
    }
  }
  TRANSOM_UNROLL
  for (size_t r = 0; r < R; ++r) TRANSOM_UNROLL
  for (size_t c = 0; c < C; ++c) *reinterpret_cast<Vector*>(y + r * width + c * kWidth) = sums[r][c];
}

template <typename T, size_t R>
void mix_rows(float* y, const float* weights, size_t row, const StoredRows& values) {
  const auto* v = static_cast<const typename T::Number*>(values.first);
  const size_t width = values.width;
  size_t i = 0;
  for (; i + 4 * kWidth <= width; i += 4 * kWidth)
    mix_block<T, R, 4>(y + i, weights, row, v + i, values.stride, values.n, width);
  for (; i + kWidth <= width; i += kWidth)
    mix_block<T, R, 1>(y + i, weights, row, v + i, values.stride, values.n, width);
  for (; i < width; ++i)
    for (size_t r = 0; r < R; ++r) {
      float sum = 0;
      for (size_t s = 0; s < values.n; ++s) sum = added(sum, weights[r * row + s], T::value(v[s * values.stride + i]));
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
  if (keys.type == StoredRows::kF32) all_scores<StoredF32>(y, row, q, count, keys);
  else if (keys.type == StoredRows::kBF16) all_scores<StoredBF16>(y, row, q, count, keys);
  else all_scores<StoredF16>(y, row, q, count, keys);
}

void mix(float* y, const float* weights, size_t row, size_t count, const StoredRows& values) {
  if (values.type == StoredRows::kF32) all_mixed<StoredF32>(y, weights, row, count, values);
  else if (values.type == StoredRows::kBF16) all_mixed<StoredBF16>(y, weights, row, count, values);
  else all_mixed<StoredF16>(y, weights, row, count, values);
}

}  // namespace

void fill_few_queries(FewQueries& table) { table = {scores, mix}; }

}  // namespace transom::cpu::TRANSOM_LEVEL
