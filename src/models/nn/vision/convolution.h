// SPDX-License-Identifier: Apache-2.0
// What models of images and signals, [N, C, spatial...], need beside Convolution and BatchNorm.
#pragma once

#include "transom/layers.h"

namespace transom {

// In training, leaves out whole samples of a residual branch (Huang et al., 2016); what is kept is scaled.
class DropPath {
 public:
  explicit DropPath(double probability) : probability_(probability) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const;  // [B, ...]

 private:
  double probability_;
};

// A vector of channels [C] shaped to broadcast over x [N, C, spatial...].
Tensor over_channels(const Tensor& vector, const Tensor& x);
// The mean over all spatial axes: [N, C, spatial...] -> [N, C].
Tensor global_mean(const Tensor& x);

// Bicubic resampling of a grid of vectors, x [h, w, D] -> [height, width, D], as torch.nn.functional.interpolate does
// it with mode "bicubic" and without align_corners.
Tensor resize_bicubic(const Tensor& x, int64_t height, int64_t width, const Computing& computing);
// The same with antialias: where the grid shrinks the taps widen, and they are Pillow's.
Tensor resize_bicubic_antialiased(const Tensor& x, int64_t height, int64_t width, const Computing& computing);
using GridResampling = Tensor (*)(const Tensor&, int64_t, int64_t, const Computing&);

}  // namespace transom
