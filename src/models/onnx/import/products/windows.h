// SPDX-License-Identifier: Apache-2.0
// How windows walk over the spatial axes of [N, C, spatial...]: of convolutions and pooling.
#pragma once

#include "models/onnx/import/run/operators.h"

namespace transom::onnx {

struct Windows {
  std::vector<int64_t> window, strides, dilations, low, high;  // one number a spatial axis

  // From the attributes kernel_shape (or `window`), strides, dilations, pads and auto_pad, for an input of this shape.
  // With ceil_mode, windows that begin inside of the padded input count, though they reach beyond its end.
  static Windows of(const Call& call, const Shape& x, std::vector<int64_t> window, bool ceil_mode = false);

  int64_t extent(size_t i, int64_t x) const;  // of the output
  int64_t covered(size_t i) const { return dilations[i] * (window[i] - 1) + 1; }
  bool ceil_mode = false;
};

}  // namespace transom::onnx
