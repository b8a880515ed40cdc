// SPDX-License-Identifier: Apache-2.0
// Layers of networks that diffuse pictures, over maps [B, C, H, W]. New weights are as wide as torch.nn's.
#pragma once

#include <optional>
#include <string>

#include "models/nn/vision/convolution.h"

namespace transom {

// Group norm (Wu and He, 2018): channels are normalised in groups, together with all places, and scaled one by one.
class GroupNorm {
 public:
  GroupNorm(const Scope& scope, int64_t groups, int64_t channels, double epsilon);
  Tensor operator()(const Tensor& x, const ForwardContext& context) const;  // [B, C, ...]

 private:
  std::string path_;
  int64_t groups_;
  double epsilon_;
  std::shared_ptr<Parameter> weight_, bias_;
};

// The deviation of torch.nn's new weights of layers that read so many numbers.
double torch_deviation(int64_t fan_in);
Linear torch_linear(const Scope& scope, int64_t in, int64_t out, bool bias = true);
// A square window of an odd extent, padded so that a stride of 1 keeps the size.
Convolution torch_convolution(const Scope& scope, int64_t in, int64_t out, int64_t window, int64_t stride = 1,
                              bool padded = true);

// Each value becomes those of a larger map that are nearest to it, as torch's "nearest" has it.
Tensor resize_nearest(const Tensor& x, int64_t height, int64_t width);

// Twice the size, or a given one, and a convolution.
class DiffusionUpsample {
 public:
  DiffusionUpsample(const Scope& scope, int64_t channels)
      : conv_(torch_convolution(scope / "conv", channels, channels, 3)) {}
  Tensor operator()(const Tensor& x, const ForwardContext& context) const {
    return (*this)(x, 2 * x.dim(2), 2 * x.dim(3), context);
  }
  Tensor operator()(const Tensor& x, int64_t height, int64_t width, const ForwardContext& context) const {
    return conv_(resize_nearest(x, height, width), context);
  }

 private:
  Convolution conv_;
};

// Half the size by a convolution. A padding of 0 pads on the right and below alone.
class DiffusionDownsample {
 public:
  DiffusionDownsample(const Scope& scope, int64_t channels, int64_t padding);
  Tensor operator()(const Tensor& x, const ForwardContext& context) const;

 private:
  int64_t padding_;
  Convolution conv_;
};

// What a residual block is made with.
struct ResidualOptions {
  int64_t time_channels = 0;  // 0: it is told no time
  int64_t groups = 32;
  double epsilon = 1e-5, dropout = 0, output_scale = 1;
  std::string activation = "silu";
  bool scales_by_time = false;  // the time scales and shifts, rather than being added
  enum class Resampling { kNone, kUp, kDown } resampling = Resampling::kNone;  // within the block
};

// Two convolutions with norms before them, told the time, beside an identity or a projection.
class ResidualBlock {
 public:
  ResidualBlock(const Scope& scope, int64_t in, int64_t out, const ResidualOptions& options);
  Tensor operator()(Tensor x, const Tensor& time, ForwardContext& context) const;  // time [B, T] or empty

 private:
  Tensor resampled(const Tensor& x) const;

  ResidualOptions options_;
  GroupNorm norm1_;
  Convolution conv1_;
  std::optional<Linear> time_emb_proj_;
  GroupNorm norm2_;
  Dropout dropout_;
  Convolution conv2_;
  std::optional<Convolution> conv_shortcut_;
};

}  // namespace transom
