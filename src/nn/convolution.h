// SPDX-License-Identifier: Apache-2.0
// Layers over images and signals, [N, C, spatial...]: convolution, batch norm, and what stands between them.
#pragma once

#include "nn/scope.h"
#include "transom/ops.h"

namespace transom {

// x [N, C, spatial...] -> [N, O, spatial...]
class Convolution {
 public:
  struct Options {
    Axes strides, low, high, dilations;  // one number a spatial axis; empty: 1, 0, 0, 1
    int64_t groups = 1;
    bool bias = true;
    double deviation = 0;  // of new weights; 0: sqrt(2 / fan out), as He et al. (2015) have it
  };
  // `window`: one extent a spatial axis.
  Convolution(const Scope& scope, int64_t in, int64_t out, const Axes& window, const Options& options);
  Tensor operator()(const Tensor& x) const;

  // Options of a square window over images, padded so that a stride of 1 keeps their size.
  static Options same(int64_t window, int64_t stride = 1, int64_t groups = 1, bool bias = false);

 private:
  std::string path_;
  ConvolutionOptions options_;
  std::shared_ptr<Parameter> weight_, bias_;
};

// Batch norm (Ioffe and Szegedy, 2015) over the channels of x [N, C, spatial...]. In training it uses the mean and
// variance of the batch, and gives new running ones as updates of its buffers: (1 - momentum) old + momentum of the
// batch. Otherwise it uses the running ones.
class BatchNorm {
 public:
  BatchNorm(const Scope& scope, int64_t channels, double epsilon = 1e-5, double momentum = 0.1);
  Tensor operator()(const Tensor& x, ForwardContext& context) const;

 private:
  std::string path_;
  double epsilon_, momentum_;
  std::shared_ptr<Parameter> weight_, bias_, running_mean_, running_var_, num_batches_tracked_;
};

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
Tensor resize_bicubic(const Tensor& x, int64_t height, int64_t width);

}  // namespace transom
