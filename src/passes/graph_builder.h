// SPDX-License-Identifier: Apache-2.0
// What the rules of passes ask of tensors, and make of them.
#pragma once

#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace transom {

// Whether the tensor comes from this operation.
inline bool is(const Tensor& x, std::string_view operation) { return x.node()->operation->name == operation; }

inline Tensor made(std::string_view operation, std::vector<Tensor> inputs, Attributes attributes) {
  return make_tensor(find_operation(operation), std::move(inputs), std::move(attributes));
}

inline Tensor reshaped(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : made("reshape", {x}, {{"shape", shape}});
}

}  // namespace transom
