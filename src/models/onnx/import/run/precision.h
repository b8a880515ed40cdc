// SPDX-License-Identifier: Apache-2.0
// Functions that are made of several operations compute 16-bit values in f32, so that only the result is rounded.
#pragma once

#include <utility>

#include "transom/ops.h"

namespace transom::onnx {

inline bool is_16_bit(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }
inline DType wide_type(DType dtype) { return is_16_bit(dtype) ? DType::kFloat32 : dtype; }
inline Tensor wide(const Tensor& x) { return cast(x, wide_type(x.dtype())); }

// function(x) in f32 or f64, rounded to the type of x.
template <typename Function>
Tensor in_wide(const Tensor& x, Function&& function) {
  return cast(std::forward<Function>(function)(wide(x)), x.dtype());
}

}  // namespace transom::onnx
