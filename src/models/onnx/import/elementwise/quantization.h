// SPDX-License-Identifier: Apache-2.0
// Numbers as codes of few bits.
#pragma once

#include "models/onnx/import/run/operators.h"

namespace transom::onnx {

// Rounded, moved by the zero point (undefined: 0), cut to the type's range.
Value quantised(const Tensor& scaled, const Tensor& zero_point, ElementType type);

// The range of all elements with zero in it, in 255 steps.
struct DynamicCodes {
  Tensor codes;       // u8, shape of x
  Tensor scale;       // f32 []
  Tensor zero_point;  // u8 []
};
DynamicCodes dynamic_codes(const Tensor& x);

}  // namespace transom::onnx
