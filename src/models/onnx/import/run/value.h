// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "models/onnx/proto/element_type.h"
#include "transom/tensor.h"

namespace transom::onnx {

// What a name of a graph stands for while the graph is traced: a tensor, a list of values, or nothing (an optional
// without a value, an input that is left out).
struct Value {
  ElementType type = ElementType::kUndefined;  // of the elements, as the file sees them
  Tensor tensor;                               // in the type's carrier
  std::shared_ptr<const std::vector<Value>> sequence;
  bool varies = false;  // its shape, or the shape that it holds, follows from data: another call may have another

  Value() = default;
  Value(ElementType element, Tensor values) : type(element), tensor(std::move(values)) {}

  bool is_tensor() const { return tensor.defined(); }
  bool is_sequence() const { return sequence != nullptr; }
  bool empty() const { return !is_tensor() && !is_sequence(); }
};

// A tensor whose elements are exactly those of its type.
inline Value value_of(Tensor tensor) {
  const ElementType type = element_type_of(tensor.dtype());
  return {type, std::move(tensor)};
}

}  // namespace transom::onnx
