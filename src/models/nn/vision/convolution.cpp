// SPDX-License-Identifier: Apache-2.0
#include "models/nn/vision/convolution.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/nn/layers.h"
#include "models/nn/vision/bicubic_matrix.h"
#include "models/nn/weight.h"

namespace transom {

Convolution::Convolution(const Scope& scope, int64_t in, int64_t out, const Axes& window, const Options& options)
    : path_(scope.path()), options_{options.strides, options.low, options.high, options.dilations, options.groups} {
  if (options.groups < 1 || in % options.groups != 0 || out % options.groups != 0)
    fail("{}: {} groups do not divide {} and {} channels", path_, options.groups, in, out);
  Shape shape{out, in / options.groups};
  double fan_out = static_cast<double>(out) / static_cast<double>(options.groups);
  for (const int64_t extent : window) {
    shape.push_back(extent);
    fan_out *= static_cast<double>(extent);
  }
  const double deviation = options.deviation > 0 ? options.deviation : std::sqrt(2 / std::max(fan_out, 1.0));
  weight_ = scope.parameter("weight", shape, Initial::normal(deviation));
  if (options.bias) bias_ = scope.parameter("bias", {out}, Initial::zeros());
}

Convolution::Options Convolution::same(int64_t window, int64_t stride, int64_t groups, bool bias) {
  const Axes low(2, (window - 1) / 2), high(2, window - 1 - (window - 1) / 2);
  return {.strides = {stride, stride}, .low = low, .high = high, .groups = groups, .bias = bias};
}

Tensor Convolution::operator()(const Tensor& x, const ForwardContext& context) const {
  const ModuleScope module(path_);
  const Tensor y = convolution(x, *weight_, options_, context.computing);
  return bias_ ? y + over_channels(cast(bias_->value, y.dtype()), y) : y;
}

Tensor Convolution::codes_of(const Tensor& x) const {
  const ModuleScope module(path_);
  return transom::codes_of(x, *weight_);
}

Tensor Convolution::numbers_of(const Tensor& codes) const {
  const ModuleScope module(path_);
  return numbers_of_codes(codes, *weight_);
}

bool Convolution::reads_as(const Convolution& other) const { return reads_as_codes(*weight_, *other.weight_); }

BatchNorm::BatchNorm(const Scope& scope, int64_t channels, double epsilon, double momentum)
    : path_(scope.path()),
      epsilon_(epsilon),
      momentum_(momentum),
      weight_(scope.parameter("weight", {channels}, Initial::ones())),
      bias_(scope.parameter("bias", {channels}, Initial::zeros())),
      running_mean_(scope.buffer("running_mean", {DType::kFloat32, {channels}}, Initial::zeros())),
      running_var_(scope.buffer("running_var", {DType::kFloat32, {channels}}, Initial::ones())),
      num_batches_tracked_(scope.buffer("num_batches_tracked", {DType::kInt64, {}}, Initial::zeros())) {}

Tensor BatchNorm::operator()(const Tensor& x, ForwardContext& context) const {
  const ModuleScope module(path_);
  const Tensor wide = cast(x, DType::kFloat32);
  const Tensor weight = cast(weight_->value, DType::kFloat32), bias = cast(bias_->value, DType::kFloat32);
  if (!context.training) {
    // What depends on the channel alone first, as PyTorch does: it is computed once, if the weights do not change.
    const Tensor scale = rsqrt(running_var_->value + epsilon_) * weight;
    const Tensor shift = bias - running_mean_->value * scale;
    return cast(wide * over_channels(scale, x) + over_channels(shift, x), x.dtype());
  }
  Axes axes{0};
  for (int64_t axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
  const double count = static_cast<double>(x.size()) / static_cast<double>(std::max<int64_t>(x.dim(1), 1));
  if (count < 2)
    fail("{}: batch norm in training needs more than one value a channel, found x {}", path_, to_string(x.shape()));
  const Tensor mean = transom::mean(wide, axes), centred = wide - over_channels(mean, x);
  const Tensor variance = transom::mean(centred * centred, axes);
  if (context.buffer_updates) {
    const auto update = [&](const std::shared_ptr<Parameter>& buffer, const Tensor& batch) {
      context.buffer_updates->push_back({buffer, buffer->value * (1 - momentum_) + batch.detach() * momentum_});
    };
    update(running_mean_, mean);
    update(running_var_, variance * (count / (count - 1)));
    const Tensor one = constant(1, DType::kInt64);
    context.buffer_updates->push_back({num_batches_tracked_, num_batches_tracked_->value + one});
  }
  const Tensor scale = rsqrt(variance + epsilon_) * weight;
  return cast(centred * over_channels(scale, x) + over_channels(bias, x), x.dtype());
}

Tensor DropPath::operator()(const Tensor& x, ForwardContext& context) const {
  if (!context.training || probability_ == 0) return x;
  Shape samples(x.shape().size(), 1);
  samples[0] = x.dim(0);
  return x * Dropout(probability_)(full(samples, 1, x.dtype()), context);
}

Tensor over_channels(const Tensor& vector, const Tensor& x) {
  Shape shape(x.shape().size(), 1);
  shape[1] = vector.size();
  return reshape(vector, shape);
}

Tensor global_mean(const Tensor& x) {
  Axes axes;
  for (int64_t axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
  return mean(x, axes);
}

Tensor bicubic_matrix(int64_t from, int64_t to, bool align_corners) {
  constexpr double kA = -0.75;
  const auto near = [](double t) { return ((kA + 2) * t - (kA + 3)) * t * t + 1; };         // |t| <= 1
  const auto far = [](double t) { return ((kA * t - 5 * kA) * t + 8 * kA) * t - 4 * kA; };  // 1 < |t| < 2
  std::vector<float> matrix(static_cast<size_t>(from * to), 0);
  for (int64_t i = 0; i < to; ++i) {
    const double place =
        align_corners
            ? static_cast<double>(i) * static_cast<double>(from - 1) / static_cast<double>(std::max<int64_t>(to - 1, 1))
            : (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
    const double floor = std::floor(place), t = place - floor;
    const double weights[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
    for (int64_t tap = 0; tap < 4; ++tap) {
      const int64_t at = std::clamp<int64_t>(static_cast<int64_t>(floor) - 1 + tap, 0, from - 1);
      matrix[static_cast<size_t>(i * from + at)] += static_cast<float>(weights[tap]);
    }
  }
  return Tensor::from(matrix, {to, from});
}

namespace {

// The matrix [to, from] of one axis: a cubic of 4 places' width, or of 4 new places' where these are larger, whose taps
// inside the grid add up to 1.
Tensor antialiased_matrix(int64_t from, int64_t to) {
  constexpr double kA = -0.5;
  const auto cubic = [](double t) {
    t = std::abs(t);
    if (t < 1) return ((kA + 2) * t - (kA + 3)) * t * t + 1;
    return t < 2 ? ((kA * t - 5 * kA) * t + 8 * kA) * t - 4 * kA : 0.0;
  };
  const double scale = static_cast<double>(from) / static_cast<double>(to), width = std::max(scale, 1.0);
  std::vector<float> matrix(static_cast<size_t>(from * to), 0);
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(static_cast<int64_t>(centre - 2 * width + 0.5), 0);
    const auto last = std::min<int64_t>(static_cast<int64_t>(centre + 2 * width + 0.5), from);
    std::vector<double> taps;
    double sum = 0;
    for (int64_t at = first; at < last; ++at) {
      taps.push_back(cubic((static_cast<double>(at) - centre + 0.5) / width));
      sum += taps.back();
    }
    for (int64_t at = first; at < last; ++at)
      matrix[static_cast<size_t>(i * from + at)] = static_cast<float>(taps[static_cast<size_t>(at - first)] / sum);
  }
  return Tensor::from(matrix, {to, from});
}

Tensor resampled_grid(const Tensor& x, const Tensor& down, const Tensor& across, const Computing& computing) {
  const int64_t h = x.dim(0), w = x.dim(1), D = x.dim(2), height = down.dim(0);
  const Tensor rows = dot_general(down, reshape(cast(x, DType::kFloat32), {h, w * D}), {{}, {}, {1}, {0}},
                                  computing);  // [height, w D]
  const Tensor both =
      dot_general(across, reshape(rows, {height, w, D}), {{}, {}, {1}, {1}}, computing);  // [width, height, D]
  return cast(permute(both, {1, 0, 2}), x.dtype());
}

}  // namespace

Tensor resize_bicubic(const Tensor& x, int64_t height, int64_t width, const Computing& computing) {
  return resampled_grid(x, bicubic_matrix(x.dim(0), height, false), bicubic_matrix(x.dim(1), width, false), computing);
}

Tensor resize_bicubic_antialiased(const Tensor& x, int64_t height, int64_t width, const Computing& computing) {
  return resampled_grid(x, antialiased_matrix(x.dim(0), height), antialiased_matrix(x.dim(1), width), computing);
}

}  // namespace transom
