// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "graph/ir/operation.h"
#include "transom/computing.h"

namespace transom {

// The product of each row with the weight of its group: x [N, K] or [N, k, K], groups i64 [N, k], weights [O, K], or
// [K, O] if `transposed`: [N, k, O]. weights[i] is that of group `first` + i; rows of other groups become zero. Rows x
// of two axes serve all k groups of their row.
Tensor grouped_linear(const Tensor& x, const Tensor& groups, std::vector<Tensor> weights,
                      const Computing& computing TRANSOM_DEFAULT({}), int64_t first = 0, bool transposed = false);
// For each of `count` groups from `first` on the sum of dy^T x over its rows, [O, K]: dy [N, k, O], x and groups as
// above.
std::vector<Tensor> grouped_linear_weight_gradient(const Tensor& dy, const Tensor& x, const Tensor& groups,
                                                   int64_t count, int64_t first = 0);

namespace op {
extern const Operation &grouped_linear, &grouped_linear_weight_gradient;
}  // namespace op

}  // namespace transom
