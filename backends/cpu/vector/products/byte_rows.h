// SPDX-License-Identifier: Apache-2.0
// Exact products of a few rows of bytes with packed weights, for processors with VNNI: a step of decoding reads each
// weight once, and the library's products of so few rows are several times slower than memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace transom::cpu {

// The weights of `width` columns that lie side by side, for all depth: groups of 4 numbers that follow each other in
// depth, [groups, width, 4]. oneDNN calls this layout BA16a64b4a.
struct ByteRows {
  size_t width;
  // c [rows, width] with `c_row` elements from row to row = a [rows, 4 groups] panel, a with `a_row` bytes from row to
  // row. Sums of up to 2^16 products stay below 2^31.
  void (*multiply)(int32_t* c, size_t c_row, const uint8_t* a, size_t a_row, const int8_t* panel, size_t rows,
                   size_t groups);
  // The same less `surplus` [width], in f32, rounded once: what follows reads no integers.
  void (*multiply_to_floats)(float* c, size_t c_row, const uint8_t* a, size_t a_row, const int8_t* panel, size_t rows,
                             size_t groups, const int32_t* surplus);
  // (sums - surplus) row_scales scales + bias, rounded as dequantize_row rounds; bias may be null.
  void (*multiply_scaled)(float* c, size_t c_row, const uint8_t* a, size_t a_row, const int8_t* panel, size_t rows,
                          size_t groups, const int32_t* surplus, const float* row_scales, const float* scales,
                          const float* bias);
};

// Null where this processor has none. Any thread.
const ByteRows* byte_rows();

namespace avx512_vnni {
void fill_byte_rows(ByteRows& table);
}

}  // namespace transom::cpu
