// SPDX-License-Identifier: Apache-2.0
// dot_general and linear as a list of equal matrix products: which axes are rows, columns and depth, with what strides.
#pragma once

#include <optional>

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/movement/copy.h"

namespace transom::cpu {

// One operand of the products. Where its axes are no matrix with strides, it is brought into one first.
struct ProductOperand {
  transom_dtype dtype;
  int64_t count = 0;            // elements of the tensor
  int64_t row = 0, column = 0;  // strides of the matrix
  Shape batch_strides;
  std::optional<StridedCopy> rearrange;  // into [batch, rows, columns]
};

struct ProductPlan {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  Shape batch_shape;
  ProductOperand a, b;  // a: [m, k], b: [k, n]
  Shape c_batch_strides;
  transom_dtype output;
  bool bias = false;
};

ProductPlan plan_dot_general(const Node& node);
ProductPlan plan_linear(const Node& node);

}  // namespace transom::cpu
