// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/onnx/import/products/windows.h"
#include "transom/ops.h"

namespace transom::onnx {

// x [N, C, spatial...] by w [O, C / groups, window...], of any number of spatial axes; floating types. Sums are of the
// type that is given, or f32 for 16 bits.
Tensor convolve(const Call& call, const Tensor& x, const Tensor& w, const Windows& windows, int64_t groups);

}  // namespace transom::onnx
