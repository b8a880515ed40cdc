// SPDX-License-Identifier: Apache-2.0
// Matrices of 4- and 8-bit codes with scales for groups of them: the one form that the weights of all compressed
// checkpoints take, and products with them. docs/decisions/compressed-weights.md says why it is this one.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "transom/ops.h"

namespace transom {

struct IntegerWeight;  // ops/products/integer_products.h

// A matrix [N, K] of codes of 4 or 8 bits. Number (n, k) is
//   scale[n, g] (code - 8, or code - 128 for 8 bits)   g = k / group
//   scale[n, g] code + minimum[n, g]                   where there are minima
//   scale[n, g] values[code]                           where there are values
// 16 rows lie together, so that one register holds four inputs of each: bytes u8 [ceil(N / 16), ceil(K / 32), S, 16,
// 4]. With 8 bits S is 8, and byte (s, r, j) is input 4 s + j of row r; with 4 bits S is 4, the low half of the byte is
// input 4 s + j and the high half input 16 + 4 s + j. Codes behind the end of the rows or columns count nothing.
struct PackedMatrix {
  int64_t bits = 4, rows = 0, depth = 0;
  int64_t group = 32;  // 16, or a multiple of 32
  Tensor bytes;
  Tensor scales;  // f16 or f32 [ceil(N / 16), ceil(K / group), 16]
  Tensor minima;  // as the scales, or undefined
  Tensor values;  // f32 [16] or [256], or undefined
  Tensor order;   // i64 [K]: column k belongs to input order[k]; undefined: to input k
  // How products read their inputs:
  //   float32      as they are
  //   int8         32 of them at a time as round(x / s), s = the largest magnitude / 127
  //   int16        likewise, in 16 bits: s the largest magnitude / 32767
  //   int8_token   a row at a time as round(x / s) within -128 to 127, s = the largest magnitude / 127.5
  //   float8       a row at a time as the nearest f8_e4m3fn of x / s, s = the largest magnitude / 448. Only for codes
  //                that are f8_e4m3fn themselves: `values` is their table
  std::string activations = "float32";
  // Instead of all else but rows and depth: products of integers, whose inputs have a scale of their own. Only these
  // may be weights of convolutions, with the window in their depth.
  std::shared_ptr<const IntegerWeight> integers = nullptr;
};

// The matrix [N, K] in f32, with its columns in the order of the inputs.
Tensor dequantised(const PackedMatrix& matrix);
// Rows ids [...] of the matrix, f32 [..., K].
Tensor dequantised_rows(const PackedMatrix& matrix, const Tensor& ids);
// x [..., K] -> [..., N], as linear() of the dequantised matrix.
Tensor quantized_matmul(const Tensor& x, const PackedMatrix& weight, const Tensor& bias TRANSOM_DEFAULT({}),
                        const Computing& computing TRANSOM_DEFAULT({}));

// Whether rows can be multiplied with either of them by groups.
bool are_of_one_form(const PackedMatrix& a, const PackedMatrix& b);
// Each row times the matrix of its group: x [N, K] or [N, k, K], groups i64 [N, k] -> [N, k, rows]. The matrices are of
// one form. A device that supports it reads those alone that have rows.
Tensor grouped_quantized_matmul(const Tensor& x, const Tensor& groups, std::span<const PackedMatrix* const> weights,
                                const Computing& computing);

}  // namespace transom
