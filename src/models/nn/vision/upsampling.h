// SPDX-License-Identifier: Apache-2.0
// Maps [N, C, H, W] made larger, or of other extents: what models of dense predictions need.
#pragma once

#include "transom/layers.h"

namespace transom {

// As torch.nn.functional.interpolate does it with mode "bilinear". `align_corners`: the outermost values keep their
// places, rather than the outer edges of the outermost pixels.
Tensor resize_bilinear(const Tensor& x, int64_t height, int64_t width, bool align_corners, const Computing& computing);

// A transposed convolution whose window is its stride, so that no two windows meet: each pixel becomes a square.
class PixelEnlargement {
 public:
  PixelEnlargement(const Scope& scope, int64_t in, int64_t out, int64_t factor, double deviation);
  Tensor operator()(const Tensor& x,
                    const ForwardContext& context) const;  // [N, in, H, W] -> [N, out, factor H, factor W]

 private:
  int64_t out_, factor_;
  std::shared_ptr<Parameter> weight_, bias_;
};

}  // namespace transom
