// SPDX-License-Identifier: Apache-2.0
// The short gated convolution of LFM2 (Liquid AI, 2025).
#pragma once

#include "models/nn/recurrence/state_layers.h"

namespace transom {

struct ShortConvolutionPlan {
  int64_t width = 0, taps = 0;
  bool bias = false;  // of all three layers
  double deviation = 0.02;
  std::string inward = "in_proj", convolution = "conv", outward = "out_proj";  // modules
};

// x -> W (c conv(b u)), where (b, c, u) are the thirds of a layer's output: [B, T, D] -> [B, T, D].
class ShortConvolution {
 public:
  // `state`: the number of the convolution's state in a cache.
  ShortConvolution(const Scope& scope, const ShortConvolutionPlan& plan, size_t state);
  Tensor operator()(const Tensor& x, const Tensor& attention_mask, ForwardContext& context) const;

 private:
  int64_t width_;
  size_t state_;
  std::string path_;
  CausalConvolution conv_;
  Linear in_proj_, out_proj_;
};

}  // namespace transom
