// SPDX-License-Identifier: Apache-2.0
// Floating types of 8 and 4 bits (Micikevicius et al., 2022; Noune et al., 2022; OCP Microscaling Formats 1.0).
#pragma once

#include <cstdint>

#include "models/onnx/proto/element_type.h"
#include "transom/tensor.h"

namespace transom::onnx {

// The value that the bits stand for.
float small_float_value(uint8_t bits, ElementType type);
// The bits of a value that the type has.
uint8_t small_float_bits(float value, ElementType type);

// Rounds to the type's values, to nearest and halves to even. x is f32 or f64. What is too large becomes the largest
// finite value with `saturate`, else infinity, or NaN in types without one; infinity itself likewise.
Tensor round_to_small_float(const Tensor& x, ElementType type, bool saturate);

}  // namespace transom::onnx
