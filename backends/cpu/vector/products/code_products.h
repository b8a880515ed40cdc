// SPDX-License-Identifier: Apache-2.0
// Products with packed matrices of 4- and 8-bit codes (src/graph/ops/products/packed_matrix.h of the library), 16
// outputs at a time. The sources are compiled once for each instruction set; code_products() is the table for the best
// one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace transom::cpu {

// 16 rows of a packed matrix.
struct CodePanel {
  const uint8_t* codes;  // [blocks of 32 inputs, 4 or 8, 16, 4]
  const void* scales;    // [groups, 16], f16 or f32
  const void* minima;    // as the scales, or null
  const float* values;   // [16] or [256], or null
  int bits;
  bool half;                       // the scales are f16
  size_t blocks;                   // of 32 inputs
  size_t group;                    // inputs: 16, or a multiple of 32
  const uint8_t* steps = nullptr;  // [16]: what codes of 4 bits stand for, as integers + 128, where `values` are such
  // Of a panel of 4 bits that is spread (CodeProducts::spread), its `codes` in bytes of their own as those of 8 bits:
  // the codes of the next panel. Null: it is not spread.
  const uint8_t* following = nullptr;
};

// What a product corrects by the sums of its inputs, for each block of 32 or, where a group has 16 inputs, each half of
// one: what its sum of products begins with, as the instruction set keeps sums (what unsigned codes have too much), or
// a number that a minimum is multiplied with.
union Correction {
  int32_t start;
  float sum;
};

// Where input j of each four lies among integers of 16 bits, whose pairs meet the even and the odd bytes of codes.
constexpr uint8_t kWideOrder[4] = {0, 2, 1, 3};

// Inputs as integers: x = scale integers, with a scale for each block of 32. They lie in tiles of rows that are
// multiplied together (rows_of_tile), of a tile by blocks, so that few addresses lead to all that a block takes.
struct RoundedInputs {
  const std::byte* integers;      // of each tile [blocks, rows, 32], i8 or i16
  const float* scales;            // [blocks, rows]
  const Correction* corrections;  // [blocks, rows, 1 or 2]
  size_t blocks;
  bool wide = false;    // i16, in kWideOrder
  bool by_row = false;  // -128 is among the integers (Rounding)
};

// How a row of inputs becomes integers.
struct Rounding {
  bool by_row;      // one scale for the whole row: its largest magnitude / 127.5, within -128 to 127; else one for each
                    // 32 inputs: theirs / 127
  bool wide;        // to i16: the scale of 32 inputs is their largest magnitude / 32,767
  bool halves;      // groups of 16 inputs: two corrections a block
  int32_t surplus;  // what each code has too much; 0: corrections are sums for minima
};

struct CodeProducts {
  const char* name;
  // The numbers of the panel, [blocks 32, 16].
  void (*unpack)(float* numbers, const CodePanel& panel);
  // y [m, 16] = x [m, depth] numbers; a row's sums are in order of depth, whatever m is.
  void (*multiply)(float* y, const float* x, size_t x_stride, const float* numbers, size_t m, size_t depth);
  // y [m, 16] of integers, whose rows are y_row apart; panels without values, or with their steps. Likewise.
  void (*multiply_rounded)(float* y, size_t y_row, const RoundedInputs& x, const CodePanel& panel, size_t m);
  // For many rows: the panel of 4 bits with each code in a byte of its own, [blocks, 8, 16, 4], or what `steps` say
  // that it stands for. `bytes` are the caller's, blocks 512 of them.
  CodePanel (*spread)(uint8_t* bytes, const CodePanel& panel);
  // Rows of the next tile of inputs, of which `left` are left.
  size_t (*rows_of_tile)(size_t left);
  // Integers round(x / scale) of a row of n numbers, n up to blocks 32, from the place of its first block on in a tile
  // of `rows`.
  void (*round)(std::byte* integers, float* scales, Correction* corrections, size_t rows, const float* x, size_t n,
                size_t blocks, const Rounding& rounding);
};

const CodeProducts& code_products();

namespace portable {
void fill_code_products(CodeProducts& table);
}
namespace avx2 {
void fill_code_products(CodeProducts& table);
}
namespace avx2_vnni {
void fill_code_products(CodeProducts& table);
}
namespace avx512 {
void fill_code_products(CodeProducts& table);
}
namespace avx512_vnni {
void fill_code_products(CodeProducts& table);
}

}  // namespace transom::cpu
