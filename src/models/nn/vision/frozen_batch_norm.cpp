// SPDX-License-Identifier: Apache-2.0
#include "models/nn/vision/frozen_batch_norm.h"

#include "models/nn/vision/convolution.h"

namespace transom {
namespace {

constexpr double kEpsilon = 1e-5;

std::shared_ptr<Parameter> channel_buffer(const Scope& scope, const char* name, int64_t channels,
                                          const Initial& initial) {
  return scope.buffer(name, {DType::kFloat32, {channels}}, initial);
}

}  // namespace

FrozenBatchNorm::FrozenBatchNorm(const Scope& scope, int64_t channels)
    : path_(scope.path()),
      weight_(channel_buffer(scope, "weight", channels, Initial::ones())),
      bias_(channel_buffer(scope, "bias", channels, Initial::zeros())),
      running_mean_(channel_buffer(scope, "running_mean", channels, Initial::zeros())),
      running_var_(channel_buffer(scope, "running_var", channels, Initial::ones())) {
  scope.derived("num_batches_tracked");
}

Tensor FrozenBatchNorm::operator()(const Tensor& x, const ForwardContext&) const {
  const ModuleScope module(path_);
  const Tensor scale = weight_->value * rsqrt(running_var_->value + kEpsilon);
  const Tensor shift = bias_->value - running_mean_->value * scale;
  return cast(cast(x, DType::kFloat32) * over_channels(scale, x) + over_channels(shift, x), x.dtype());
}

}  // namespace transom
