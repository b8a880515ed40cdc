// SPDX-License-Identifier: Apache-2.0
#include "models/nn/vision/upsampling.h"

#include <algorithm>
#include <cmath>

#include "models/nn/vision/convolution.h"

namespace transom {
namespace {

// The matrix [to, from] of one axis: two taps around each place, those beyond the ends at the ends.
Tensor bilinear_matrix(int64_t from, int64_t to, bool align_corners) {
  std::vector<float> matrix(static_cast<size_t>(from * to), 0);
  for (int64_t i = 0; i < to; ++i) {
    const auto at = static_cast<double>(i);
    const double place = !align_corners
                             ? std::max(0.0, (at + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5)
                         : to > 1 ? at * static_cast<double>(from - 1) / static_cast<double>(to - 1)
                                  : 0;
    const int64_t first = std::min(static_cast<int64_t>(place), from - 1), second = std::min(first + 1, from - 1);
    const double weight = place - static_cast<double>(first);
    matrix[static_cast<size_t>(i * from + first)] += static_cast<float>(1 - weight);
    matrix[static_cast<size_t>(i * from + second)] += static_cast<float>(weight);
  }
  return Tensor::from(matrix, {to, from});
}

}  // namespace

Tensor resize_bilinear(const Tensor& x, int64_t height, int64_t width, bool align_corners, const Computing& computing) {
  Tensor y = cast(x, DType::kFloat32);
  // The axis that is contracted moves to the end: [N, C, W, height], then [N, C, height, width].
  y = dot_general(y, bilinear_matrix(x.dim(2), height, align_corners), {{}, {}, {2}, {1}}, computing);
  y = dot_general(y, bilinear_matrix(x.dim(3), width, align_corners), {{}, {}, {2}, {1}}, computing);
  return cast(y, x.dtype());
}

PixelEnlargement::PixelEnlargement(const Scope& scope, int64_t in, int64_t out, int64_t factor, double deviation)
    : out_(out),
      factor_(factor),
      weight_(scope.parameter("weight", {in, out, factor, factor}, Initial::normal(deviation))),
      bias_(scope.parameter("bias", {out}, Initial::zeros())) {}

Tensor PixelEnlargement::operator()(const Tensor& x, const ForwardContext& context) const {
  const int64_t N = x.dim(0), H = x.dim(2), W = x.dim(3);
  const Tensor weight = reshape(cast(weight_->value, x.dtype()), {x.dim(1), out_ * factor_ * factor_});
  const Tensor squares = dot_general(x, weight, {{}, {}, {1}, {0}}, context.computing);  // [N, H, W, out factor factor]
  const Tensor split = reshape(squares, {N, H, W, out_, factor_, factor_});
  const Tensor y = reshape(permute(split, {0, 3, 1, 4, 2, 5}), {N, out_, H * factor_, W * factor_});
  return y + over_channels(cast(bias_->value, y.dtype()), y);
}

}  // namespace transom
