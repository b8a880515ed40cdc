// SPDX-License-Identifier: Apache-2.0
// Maps and sets keyed by the identity of tensors (node and output).
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "transom/tensor.h"

namespace transom {

struct TensorHash {
  size_t operator()(const Tensor& tensor) const {
    return std::hash<const void*>()(tensor.node().get()) * 31 + static_cast<size_t>(tensor.output());
  }
};
struct SameTensor {
  bool operator()(const Tensor& a, const Tensor& b) const { return a.same_as(b); }
};

template <typename T>
using TensorMap = std::unordered_map<Tensor, T, TensorHash, SameTensor>;
using TensorSet = std::unordered_set<Tensor, TensorHash, SameTensor>;

}  // namespace transom
