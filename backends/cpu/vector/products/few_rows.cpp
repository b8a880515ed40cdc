// SPDX-License-Identifier: Apache-2.0
// Products of a few rows with a large matrix. Every element of w is read once and used for all rows of x, which lie in
// the first cache; the library repacks w or works on one row at a time, and stays far from the bandwidth of memory.
#include "cpu/vector/storage.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

// The sum of N elements by halves: one after the other would take longer than the products of a short row.
template <size_t N>
inline float fold(const float* x) {
  if constexpr (N == 1) return x[0];
  else {
    float half[N / 2];
    TRANSOM_UNROLL
    for (size_t i = 0; i < N / 2; ++i) half[i] = x[i] + x[i + N / 2];
    return fold<N / 2>(half);
  }
}

inline float horizontal(Vector x) {
  float parts[kWidth];
  *reinterpret_cast<Vector*>(parts) = x;
  return fold<kWidth>(parts);
}

// sum + x y, rounded once where the processor can: written out, since a compiler's choice may differ with M.
inline float added(float sum, float x, float y) {
#if defined(__FMA__)
  return __builtin_fmaf(x, y, sum);
#else
  return sum + x * y;
#endif
}

// Columns [begin, end) of M rows of x with R rows of w at once: R streams of w keep the memory busy, M * R sums hide
// the latency of addition. Adds to y unless it is the first block of columns.
template <typename Stored, size_t M, size_t R>
void block(float* y, size_t y_stride, const float* x, const typename Stored::Number* w, size_t depth, size_t begin,
           size_t end) {
  Vector sums[M][R] = {};
  size_t k = begin;
  for (; k + kWidth <= end; k += kWidth) {
    Vector rows[R];
    TRANSOM_UNROLL
    for (size_t r = 0; r < R; ++r) {
      rows[r] = Stored::load(w + r * depth + k);
      // The next rows: these end too soon for the processor to guess where it goes on. A third of the time.
      __builtin_prefetch(w + (R + r) * depth + k, 0, 2);
    }
    TRANSOM_UNROLL
    for (size_t m = 0; m < M; ++m) {
      const Vector left = StoredF32::load(x + m * depth + k);
      TRANSOM_UNROLL
      for (size_t r = 0; r < R; ++r) sums[m][r] += left * rows[r];
    }
  }
  TRANSOM_UNROLL
  for (size_t m = 0; m < M; ++m) {
    TRANSOM_UNROLL
    for (size_t r = 0; r < R; ++r) {
      float total = horizontal(sums[m][r]);
      for (size_t i = k; i < end; ++i) total = added(total, x[m * depth + i], Stored::value(w[r * depth + i]));
      y[m * y_stride + r] = begin ? y[m * y_stride + r] + total : total;
    }
  }
}

// How many rows of w at once, by the registers that there are.
constexpr size_t rows_together(size_t m) {
  if (kWidth == 16) return m <= 4 ? 4 : 3;
  return m <= 2 ? 4 : m == 3 ? 3 : m == 4 ? 2 : 1;
}

// Columns are cut into blocks, so that the M rows of x of a block stay in the first cache. The blocks are the same
// whatever M is: a row of x has the bits that it has alone.
constexpr size_t kBlock = 768;

constexpr size_t end_of_block(size_t begin, size_t depth) {
  return depth - begin > kBlock + kBlock / 2 ? begin + kBlock : depth;
}

template <typename Stored, size_t M>
void all_rows(float* y, size_t y_stride, const float* x, const typename Stored::Number* w, size_t rows, size_t depth) {
  constexpr size_t kTogether = rows_together(M);
  if constexpr (M <= 2) {  // which stay there anyway: w is read from end to end
    for (size_t r = 0; r < rows;) {
      const bool many = r + kTogether <= rows;
      for (size_t begin = 0; begin < depth; begin = end_of_block(begin, depth))
        (many ? block<Stored, M, kTogether> : block<Stored, M, 1>)(y + r, y_stride, x, w + r * depth, depth, begin,
                                                                   end_of_block(begin, depth));
      r += many ? kTogether : 1;
    }
    return;
  }
  for (size_t begin = 0; begin < depth; begin = end_of_block(begin, depth)) {
    const size_t end = end_of_block(begin, depth);
    size_t r = 0;
    for (; r + kTogether <= rows; r += kTogether)
      block<Stored, M, kTogether>(y + r, y_stride, x, w + r * depth, depth, begin, end);
    for (; r < rows; ++r) block<Stored, M, 1>(y + r, y_stride, x, w + r * depth, depth, begin, end);
  }
}

template <typename Stored>
void rows_of(float* y, size_t y_stride, const float* x, const typename Stored::Number* w, size_t m, size_t rows,
             size_t depth) {
  switch (m) {
    case 1:
      return all_rows<Stored, 1>(y, y_stride, x, w, rows, depth);
    case 2:
      return all_rows<Stored, 2>(y, y_stride, x, w, rows, depth);
    case 3:
      return all_rows<Stored, 3>(y, y_stride, x, w, rows, depth);
    case 4:
      return all_rows<Stored, 4>(y, y_stride, x, w, rows, depth);
    case 5:
      return all_rows<Stored, 5>(y, y_stride, x, w, rows, depth);
    case 6:
      return all_rows<Stored, 6>(y, y_stride, x, w, rows, depth);
    case 7:
      return all_rows<Stored, 7>(y, y_stride, x, w, rows, depth);
    case 8:
      return all_rows<Stored, 8>(y, y_stride, x, w, rows, depth);
    default:
      return;
  }
}

}  // namespace

void fill_products(VectorKernels& kernels) {
  kernels.rows_f32 = rows_of<StoredF32>;
  kernels.rows_bf16 = rows_of<StoredBF16>;
  kernels.rows_f16 = rows_of<StoredF16>;
}

}  // namespace transom::cpu::TRANSOM_LEVEL
