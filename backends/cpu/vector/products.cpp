// SPDX-License-Identifier: Apache-2.0
// Products of a few rows with a large matrix. Every element of w is read once and used for all rows of x, which lie in
// the first cache; the library repacks w or works on one row at a time, and stays far from the bandwidth of memory.
#include "cpu/vector/half.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

#if defined(__AVX512F__)
constexpr size_t kWidth = 16;
#elif defined(__AVX2__)
constexpr size_t kWidth = 8;
#else
constexpr size_t kWidth = 4;
#endif
typedef float Vector __attribute__((vector_size(kWidth * sizeof(float)), aligned(4), may_alias));

struct FromFloat {
  using Storage = float;
  static Vector load(const float* p) { return *reinterpret_cast<const Vector*>(p); }
  static float value(float x) { return x; }
};
struct FromBF16 {
  using Storage = uint16_t;
  static Vector load(const uint16_t* p) {
    Vector result;
    for (size_t i = 0; i < kWidth; ++i) result[i] = bf16_to_float(p[i]);
    return result;
  }
  static float value(uint16_t x) { return bf16_to_float(x); }
};
struct FromF16 {
  using Storage = uint16_t;
  static Vector load(const uint16_t* p) {
    Vector result;
    for (size_t i = 0; i < kWidth; ++i) result[i] = f16_to_float(p[i]);
    return result;
  }
  static float value(uint16_t x) { return f16_to_float(x); }
};

inline float horizontal(Vector x) {
  float total = 0;
  for (size_t i = 0; i < kWidth; ++i) total += x[i];
  return total;
}

// M rows of x with R rows of w at once: R streams of w keep the memory busy, M * R sums hide the latency of addition.
template <typename From, size_t M, size_t R>
void block(float* y, size_t y_stride, const float* x, const typename From::Storage* w, size_t depth) {
  Vector sums[M][R] = {};
  size_t k = 0;
  for (; k + kWidth <= depth; k += kWidth) {
    Vector rows[R];
    for (size_t r = 0; r < R; ++r) rows[r] = From::load(w + r * depth + k);
    for (size_t m = 0; m < M; ++m) {
      const Vector left = FromFloat::load(x + m * depth + k);
      for (size_t r = 0; r < R; ++r) sums[m][r] += left * rows[r];
    }
  }
  for (size_t m = 0; m < M; ++m) {
    for (size_t r = 0; r < R; ++r) {
      float total = horizontal(sums[m][r]);
      for (size_t i = k; i < depth; ++i) total += x[m * depth + i] * From::value(w[r * depth + i]);
      y[m * y_stride + r] = total;
    }
  }
}

template <typename From, size_t M>
void all_rows(float* y, size_t y_stride, const float* x, const typename From::Storage* w, size_t rows, size_t depth) {
  constexpr size_t kTogether = M <= 4 ? 4 : 2;
  size_t r = 0;
  for (; r + kTogether <= rows; r += kTogether) block<From, M, kTogether>(y + r, y_stride, x, w + r * depth, depth);
  for (; r < rows; ++r) block<From, M, 1>(y + r, y_stride, x, w + r * depth, depth);
}

template <typename From>
void rows_of(float* y, size_t y_stride, const float* x, const typename From::Storage* w, size_t m, size_t rows,
             size_t depth) {
  switch (m) {
    case 1:
      return all_rows<From, 1>(y, y_stride, x, w, rows, depth);
    case 2:
      return all_rows<From, 2>(y, y_stride, x, w, rows, depth);
    case 3:
      return all_rows<From, 3>(y, y_stride, x, w, rows, depth);
    case 4:
      return all_rows<From, 4>(y, y_stride, x, w, rows, depth);
    case 5:
      return all_rows<From, 5>(y, y_stride, x, w, rows, depth);
    case 6:
      return all_rows<From, 6>(y, y_stride, x, w, rows, depth);
    case 7:
      return all_rows<From, 7>(y, y_stride, x, w, rows, depth);
    case 8:
      return all_rows<From, 8>(y, y_stride, x, w, rows, depth);
    default:
      return;
  }
}

}  // namespace

void fill_products(VectorKernels& kernels) {
  kernels.rows_f32 = rows_of<FromFloat>;
  kernels.rows_bf16 = rows_of<FromBF16>;
  kernels.rows_f16 = rows_of<FromF16>;
}

}  // namespace transom::cpu::TRANSOM_LEVEL
