// SPDX-License-Identifier: Apache-2.0
// Which thread of a wave holds which element of a matrix unit's operands. A step multiplies A, 16 rows, by B, 16
// columns, and adds to C, 16 x 16. A row of A, and a column of B, is 8 words of 4 bytes: 16 numbers of 2 bytes, 32 of 1
// byte, 8 of f32. Each thread holds some words of A and B, and some results.
//
// The places are functions over any number with + * / %: over int64_t for tests, over text for kernels.
#pragma once

#include <cstdint>

namespace transom::gpu {

// kVector: no matrix unit; each thread multiplies 4 rows by 2 columns. kMma: NVIDIA from sm_80 on, mma.m16n8k16 and
// mma.m16n8k32 (PTX ISA, "Matrix Fragments"), two of them for 16 columns. kMfma: AMD's CDNA 2 and 3, waves of 64,
// v_mfma_f32_16x16x16 and v_mfma_i32_16x16x32. kWmma: RDNA 3, v_wmma_16x16x16, whose two half waves hold the same A, B.
enum class MatrixUnit { kVector, kMma, kMfma, kWmma };
inline constexpr MatrixUnit kMatrixUnits[] = {MatrixUnit::kVector, MatrixUnit::kMma, MatrixUnit::kMfma,
                                              MatrixUnit::kWmma};
inline constexpr int64_t kFragment = 16, kFragmentWords = 8;

struct FragmentCounts {
  int64_t wave;     // threads
  int64_t a, b, c;  // words of A and B, results, of a thread
};
constexpr FragmentCounts counts_of(MatrixUnit unit) {
  switch (unit) {
    case MatrixUnit::kVector:
      return {32, 32, 16, 8};
    case MatrixUnit::kMma:
      return {32, 4, 4, 8};
    case MatrixUnit::kMfma:
      return {64, 2, 2, 4};
    case MatrixUnit::kWmma:
      return {32, 8, 8, 8};
  }
  return {};
}

// Of the word w of A that a thread holds: its row, and its place in the row.
template <typename N>
N a_row(MatrixUnit unit, const N& thread, const N& w) {
  if (unit == MatrixUnit::kVector) return thread % 4 * 4 + w / 8;
  if (unit == MatrixUnit::kMma) return thread / 4 + w % 2 * 8;
  return thread % 16;
}
template <typename N>
N a_word(MatrixUnit unit, const N& thread, const N& w) {
  if (unit == MatrixUnit::kVector) return w % 8;
  if (unit == MatrixUnit::kMma) return thread % 4 + w / 2 * 4;
  if (unit == MatrixUnit::kMfma) return thread / 16 * 2 + w;
  return w;
}
// Of the word w of B: its column, and its place in the column.
template <typename N>
N b_column(MatrixUnit unit, const N& thread, const N& w) {
  if (unit == MatrixUnit::kVector) return thread / 4 * 2 + w / 8;
  if (unit == MatrixUnit::kMma) return thread / 4 + w / 2 * 8;
  return thread % 16;
}
template <typename N>
N b_word(MatrixUnit unit, const N& thread, const N& w) {
  if (unit == MatrixUnit::kVector) return w % 8;
  if (unit == MatrixUnit::kMma) return thread % 4 + w % 2 * 4;
  if (unit == MatrixUnit::kMfma) return thread / 16 * 2 + w;
  return w;
}
// Of the result i.
template <typename N>
N c_row(MatrixUnit unit, const N& thread, const N& i) {
  if (unit == MatrixUnit::kVector) return thread % 4 * 4 + i / 2;
  if (unit == MatrixUnit::kMma) return thread / 4 + i / 2 % 2 * 8;
  if (unit == MatrixUnit::kMfma) return thread / 16 * 4 + i;
  return thread / 16 + i * 2;
}
template <typename N>
N c_column(MatrixUnit unit, const N& thread, const N& i) {
  if (unit == MatrixUnit::kVector) return thread / 4 * 2 + i % 2;
  if (unit == MatrixUnit::kMma) return thread % 4 * 2 + i % 2 + i / 4 * 8;
  return thread % 16;
}

}  // namespace transom::gpu
