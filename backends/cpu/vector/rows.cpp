// SPDX-License-Identifier: Apache-2.0
// Reductions of a row of f32, and the rows of softmax and layer_norm. A row stays in the cache between the passes.
#include "cpu/vector/half.h"
#include "cpu/vector/lanes.h"
#include "cpu/vector/softmax.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

// Lane i adds up the numbers i, i + kWidth, ... and then halves of lanes are joined.
float sum_piece(const float* x, size_t n) {
  Lanes total(0.0f);
  size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) total = total + load_lanes(x + i);
  if (i < n) total = total + load_lanes(x + i, n - i, 0.0f);
  return sum_of(total);
}

// Long rows are summed in pieces, so that the rounding error does not grow with the length.
size_t half_of_sum(size_t n) { return n / 2 / 64 * 64; }
float sum(const float* x, size_t n) {
  if (n <= kSumPiece) return sum_piece(x, n);
  const size_t half = half_of_sum(n);
  return sum(x, half) + sum(x + half, n - half);
}

// The same for `width` <= kWidth columns at once.
Lanes sum_columns(const float* x, size_t stride, size_t n, size_t width) {
  if (n > kSumPiece) {
    const size_t half = half_of_sum(n);
    return sum_columns(x, stride, half, width) + sum_columns(x + half * stride, stride, n - half, width);
  }
  const auto row = [&](size_t i) {
    return width == kWidth ? load_lanes(x + i * stride) : load_lanes(x + i * stride, width, 0.0f);
  };
  Vector totals[kWidth] = {};
  size_t first = 0;
  for (; first + kWidth <= n; first += kWidth) {
    TRANSOM_UNROLL
    for (size_t i = 0; i < kWidth; ++i) totals[i] += row(first + i).value;
  }
  TRANSOM_UNROLL
  for (size_t i = 0; i < kWidth; ++i)
    if (first + i < n) totals[i] += row(first + i).value;
  TRANSOM_UNROLL
  for (size_t half = kWidth / 2; half > 0; half /= 2) {
    TRANSOM_UNROLL
    for (size_t i = 0; i < half; ++i) totals[i] += totals[i + half];
  }
  return totals[0];
}

void column_sums(float* sums, const float* x, size_t stride, size_t n, size_t columns) {
  size_t i = 0;
  for (; i + kWidth <= columns; i += kWidth) store_lanes(sums + i, sum_columns(x + i, stride, n, kWidth));
  if (i < columns) store_lanes(sums + i, sum_columns(x + i, stride, n, columns - i), columns - i);
}

float dot(const float* x, const float* y, size_t n) {
  float total = 0;
  TRANSOM_SIMD_REDUCE(+, total)
  for (size_t i = 0; i < n; ++i) total += x[i] * y[i];
  return total;
}

float max(const float* x, size_t n) {
  float largest = -kInfinity;
  int bad = 0;
  TRANSOM_SIMD_REDUCE(max, largest)
  for (size_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  TRANSOM_SIMD_REDUCE(|, bad)
  for (size_t i = 0; i < n; ++i) bad |= x[i] != x[i];
  return bad ? __builtin_nanf("") : largest;
}

float min(const float* x, size_t n) {
  float smallest = kInfinity;
  int bad = 0;
  TRANSOM_SIMD_REDUCE(min, smallest)
  for (size_t i = 0; i < n; ++i) smallest = x[i] < smallest ? x[i] : smallest;
  TRANSOM_SIMD_REDUCE(|, bad)
  for (size_t i = 0; i < n; ++i) bad |= x[i] != x[i];
  return bad ? __builtin_nanf("") : smallest;
}

inline float f32_to_float(float x) { return x; }

// Four rows at a time, since the sums are read and written for each time.
template <typename T, float (*number)(T)>
void add_rows(float* sums, const void* x, size_t stride, size_t rows, size_t n) {
  auto* a = static_cast<const T*>(x);
  for (; rows >= 4; rows -= 4, a += 4 * stride) {
    const T *b = a + stride, *c = b + stride, *d = c + stride;
    TRANSOM_SIMD
    for (size_t i = 0; i < n; ++i) sums[i] = sums[i] + number(a[i]) + number(b[i]) + number(c[i]) + number(d[i]);
  }
  for (; rows > 0; --rows, a += stride) {
    TRANSOM_SIMD
    for (size_t i = 0; i < n; ++i) sums[i] += number(a[i]);
  }
}

void softmax(float* y, const float* x, size_t n) { softmax_below(y, x, 1.0f, largest_of(x, n), n); }

void log_softmax(float* y, const float* x, size_t n) {
  const float largest = max(x, n);
  float total = 0;
  TRANSOM_SIMD_REDUCE(+, total)
  for (size_t i = 0; i < n; ++i) total += exp_value(x[i] - largest);
  const float log_total = log_value(total);
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) y[i] = (x[i] - largest) - log_total;
}

void softmax_gradient(float* dx, const float* y, const float* dy, size_t n) {
  const float total = dot(y, dy, n);
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - total);
}

void log_softmax_gradient(float* dx, const float* y, const float* dy, size_t n) {
  const float total = sum(dy, n);
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) dx[i] = dy[i] - exp_value(y[i]) * total;
}

struct Moments {
  float mean, inverse_deviation;
};

// The variance from the differences to the mean: the difference of squares would lose what the mean has in common.
Moments moments(const float* x, float epsilon, size_t n) {
  const float mean = sum(x, n) / static_cast<float>(n);
  float squares = 0;
  TRANSOM_SIMD_REDUCE(+, squares)
  for (size_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  return {mean, 1.0f / __builtin_sqrtf(squares / static_cast<float>(n) + epsilon)};
}

void layer_norm(float* y, const float* x, const float* scale, const float* bias, float epsilon, size_t n) {
  const Moments m = moments(x, epsilon, n);
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) y[i] = (x[i] - m.mean) * m.inverse_deviation * scale[i] + bias[i];
}

void layer_norm_gradient(float* dx, float* dscale, float* dbias, const float* x, const float* scale, const float* dy,
                         float epsilon, size_t n) {
  const Moments m = moments(x, epsilon, n);
  float gradient_sum = 0, projected_sum = 0;
  TRANSOM_PRAGMA(omp simd reduction(+ : gradient_sum, projected_sum))
  for (size_t i = 0; i < n; ++i) {
    const float normal = (x[i] - m.mean) * m.inverse_deviation, g = dy[i] * scale[i];
    gradient_sum += g;
    projected_sum += g * normal;
    dscale[i] += dy[i] * normal;
    dbias[i] += dy[i];
  }
  const float gradient_mean = gradient_sum / static_cast<float>(n),
              projected_mean = projected_sum / static_cast<float>(n);
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) {
    const float normal = (x[i] - m.mean) * m.inverse_deviation;
    dx[i] = (dy[i] * scale[i] - gradient_mean - normal * projected_mean) * m.inverse_deviation;
  }
}

}  // namespace

void fill_rows(VectorKernels& kernels) {
  kernels.sum = sum;
  kernels.column_sums = column_sums;
  kernels.max = max;
  kernels.min = min;
  kernels.dot = dot;
  kernels.add_rows_f32 = add_rows<float, f32_to_float>;
  kernels.add_rows_f16 = add_rows<uint16_t, f16_to_float>;
  kernels.add_rows_bf16 = add_rows<uint16_t, bf16_to_float>;
  kernels.softmax = softmax;
  kernels.log_softmax = log_softmax;
  kernels.softmax_gradient = softmax_gradient;
  kernels.log_softmax_gradient = log_softmax_gradient;
  kernels.layer_norm = layer_norm;
  kernels.layer_norm_gradient = layer_norm_gradient;
}

}  // namespace transom::cpu::TRANSOM_LEVEL
