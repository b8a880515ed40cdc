// SPDX-License-Identifier: Apache-2.0
// Products of the own text: what lower_products makes of a node, and the kernel over the chip's matrix unit.
#pragma once

#include "gpu/lowering/lowering.h"

namespace transom::gpu {

// out[b, m, n] = sum over k of x[b, m, k] y[b, n, k] (+ bias[n]), strides in elements; out is dense.
struct Product {
  int64_t batch, rows, columns, depth;
  int64_t x_batch, x_row, x_depth, y_batch, y_column, y_depth;
  transom_dtype from, to;
};

// A matrix of codes in the place of y, as src/graph/ops/products/packed_matrix.h lays them out: w[n, k] of `outputs`
// rows and `inputs` columns. `turned`: the columns of y are w's, for dy w.
struct PackedCodes {
  int64_t bits, outputs, inputs, group;
  bool turned;
  transom_dtype scale_type;
  Operand codes, scales;
  const Operand *minima = nullptr, *values = nullptr;
};

struct FragmentProduct {
  Product shape;
  Operand x, y, out;
  const Operand* bias = nullptr;
  transom_dtype bias_type = TRANSOM_FLOAT32;
  bool wide = false;  // 64-bit indices
  const PackedCodes* packed = nullptr;
  int64_t zero_point = 0;  // what is taken from x, of integers
  Following* following = nullptr;
};

// Of f32, f16, bf16, and of x i8 or u8 with y i8, whose sums are made in i32 and rounded once to f32. The sum of a
// result runs over the depth in one order, whatever the other results are.
void launch_fragment_product(Emitter& emitter, const FragmentProduct& product);

// What quantized_matmul and its gradient say, as long as `work` lives. `bias`: its input, or 0.
struct PackedNode {
  explicit PackedNode(const Work& work);
  FragmentProduct product() const;  // with x as it is; as long as this lives
  const Work& work;
  PackedCodes codes;
  size_t bias = 0;
};

// quantized_matmul whose `activations` are not float32.
void launch_rounded_product(Emitter& emitter, const Work& work, const PackedNode& packed);

}  // namespace transom::gpu
