// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "models/onnx/import/run/operators.h"

namespace transom::onnx {

// The two inputs of an element-wise operator. Before opset 7 shapes are equal unless the node asks for broadcasting,
// from `axis` on or at the end; from then on they broadcast as NumPy's.
std::pair<Tensor, Tensor> operands(const Call& call);

// The shape that both broadcast to, as NumPy's do.
Shape broadcast_shape(const Call& call, const Shape& x, const Shape& y);

}  // namespace transom::onnx
