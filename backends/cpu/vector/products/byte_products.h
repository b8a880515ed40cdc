// SPDX-License-Identifier: Apache-2.0
// Exact products of rows of bytes with packed weights, for each instruction set: sums of integers, which give the same
// bits everywhere. Up to six rows share each weight that is read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace transom::cpu {

// Weights lie in panels of `width` columns, in each of them groups of numbers that follow each other in depth,
// [groups, width, group]; the last panel and the last group are filled up with 0.
struct ByteOperands {
  const uint8_t* a;  // [rows, depth], with a_row bytes from row to row
  size_t a_row;
  const int8_t* panels;
  size_t panel_step;  // bytes from panel to panel
  size_t rows, depth, panel_count;
  const int32_t* surplus;  // of each column: what its sums have too much; null for 0
};

struct ByteProducts {
  const char* name;
  size_t width, group;  // of weights; with VNNI they are those of oneDNN's layout BA16a64b4a or its narrower forms
  // c [rows, panel_count width] with c_row elements from row to row. Sums of up to 2^16 products stay below 2^31.
  // `depth` need not be whole groups, but a is read in whole ones: what lies there is multiplied by 0.
  void (*multiply)(int32_t* c, size_t c_row, const ByteOperands& operands);
  // In f32, rounded once: for what reads no integers.
  void (*multiply_to_floats)(float* c, size_t c_row, const ByteOperands& operands);
  // sums row_scales scales + bias, rounded as dequantize_row rounds; bias may be null.
  void (*multiply_scaled)(float* c, size_t c_row, const ByteOperands& operands, const float* row_scales,
                          const float* scales, const float* bias);

  // The same for numbers of 16 bits, where a processor without VNNI has them; else null. a [rows, depth], whole groups;
  // sums are taken modulo 2^32.
  void (*multiply_words)(int32_t* c, size_t c_row, const int16_t* a, size_t a_row, const int16_t* panels,
                         size_t panel_step, size_t rows, size_t depth, size_t panel_count);

  size_t padded_depth(size_t depth) const { return (depth + group - 1) / group * group; }
  size_t panels_of(size_t columns) const { return (columns + width - 1) / width; }
  // Writes the panels of these columns, each of `padded` numbers in depth; at(k, column) gives the weights.
  template <typename Number, typename At>
  void pack(Number* panels, size_t depth, size_t padded, size_t columns, const At& at) const {
    for (size_t first = 0; first < columns; first += width)
      for (size_t begin = 0; begin < padded; begin += group)
        for (size_t column = first; column < first + width; ++column)
          for (size_t k = begin; k < begin + group; ++k)
            *panels++ = column < columns && k < depth ? at(k, column) : Number{0};
  }
};

// Of this processor. Any thread.
const ByteProducts& byte_products();

namespace portable {
void fill_byte_products(ByteProducts& table);
}
namespace avx2 {
void fill_byte_products(ByteProducts& table);
}
namespace avx2_vnni {
void fill_byte_products(ByteProducts& table);
}
namespace avx512 {
void fill_byte_products(ByteProducts& table);
}
namespace avx512_vnni {
void fill_byte_products(ByteProducts& table);
}

}  // namespace transom::cpu
