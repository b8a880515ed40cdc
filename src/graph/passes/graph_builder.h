// SPDX-License-Identifier: Apache-2.0
// What the rules of passes ask of nodes and tensors, and make of them.
#pragma once

#include <vector>

#include "graph/ir/graph.h"
#include "graph/ops/records.h"

namespace transom {

inline bool is_op(const Node& node, const Operation& operation) { return node.operation == &operation; }
// Whether the tensor comes from this operation.
inline bool is_op(const Tensor& x, const Operation& operation) { return is_op(*x.node(), operation); }

inline Tensor emit(const Operation& operation, std::vector<Tensor> inputs, Attributes attributes) {
  return make_tensor(operation, std::move(inputs), std::move(attributes));
}

inline Tensor reshaped(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : emit(op::reshape, {x}, {{"shape", shape}});
}

}  // namespace transom
