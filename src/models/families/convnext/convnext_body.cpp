// SPDX-License-Identifier: Apache-2.0
#include "models/families/convnext/convnext_body.h"

#include <algorithm>

namespace transom {
namespace {

constexpr double kResponseEpsilon = 1e-6;
// So that the root of a channel of zeros has a gradient. It changes no other sum of squares.
constexpr double kLeastSquare = 1.2e-38;

Convolution::Options convnext_options(Convolution::Options options, const ConvNextDesign& d) {
  options.deviation = d.deviation;
  options.bias = d.bias;
  return options;
}

// A layer over the channels of [B, H, W, C], whatever the form of its weight.
class ConvNextChannels {
 public:
  ConvNextChannels(const Scope& scope, const ConvNextDesign& d, int64_t in, int64_t out) {
    if (d.pointwise) convolution_.emplace(scope, in, out, Axes{1, 1}, Convolution::Options{.deviation = d.deviation});
    else linear_.emplace(scope, in, out, Linear::Options{.deviation = d.deviation});
  }
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    if (linear_) return (*linear_)(x, context);
    return permute((*convolution_)(permute(x, {0, 3, 1, 2}), context), {0, 2, 3, 1});
  }

 private:
  std::optional<Linear> linear_;
  std::optional<Convolution> convolution_;
};

// Global response normalization: the norm of each channel over all places, relative to their mean.
class ConvNextResponse {
 public:
  ConvNextResponse(const Scope& scope, const Shape& shape)
      : weight_(scope.parameter("weight", shape, Initial::zeros())),
        bias_(scope.parameter("bias", shape, Initial::zeros())) {}
  Tensor operator()(const Tensor& x) const {  // [B, H, W, C]
    const Tensor wide = cast(x, DType::kFloat32);
    const Tensor strength = sqrt(reduce_sum(wide * wide, {1, 2}, true) + kLeastSquare);
    const Tensor relative = cast(strength / (mean(strength, {3}, true) + kResponseEpsilon), x.dtype());
    return x + (cast(bias_->value, x.dtype()) + cast(weight_->value, x.dtype()) * (x * relative));
  }

 private:
  std::shared_ptr<Parameter> weight_, bias_;
};

class ConvNextBlock {
 public:
  ConvNextBlock(const Scope& scope, const ConvNextDesign& d, int64_t width, int64_t window, double drop_path)
      : activation_(d.hidden_act),
        depthwise_(scope / d.names.depthwise, width, width, {window, window},
                   convnext_options(Convolution::same(window, 1, width), d)),
        norm_(scope / d.names.norm, width, d.norm_epsilon),
        widening_(scope / d.names.widening, d, width, 4 * width),
        narrowing_(scope / d.names.narrowing, d, 4 * width, width),
        drop_path_(drop_path) {
    if (d.responds) {
      Shape shape(d.response_axes, 1);
      shape.back() = 4 * width;
      response_.emplace(scope / d.names.response, shape);
    }
    if (d.layer_scale) scale_ = scope.parameter(d.names.scale, {width}, Initial::constant(*d.layer_scale));
  }
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    Tensor h = norm_(permute(depthwise_(x, context), {0, 2, 3, 1}), context);
    h = activation(activation_, widening_(h, context));
    if (response_) h = (*response_)(h);
    h = narrowing_(h, context);
    if (scale_) h = h * cast(scale_->value, h.dtype());
    return x + drop_path_(permute(h, {0, 3, 1, 2}), context);
  }

 private:
  std::string activation_;
  Convolution depthwise_;
  LayerNorm norm_;
  ConvNextChannels widening_, narrowing_;
  std::optional<ConvNextResponse> response_;
  std::shared_ptr<Parameter> scale_;
  DropPath drop_path_;
};

std::vector<Convolution> convnext_stem(const Scope& scope, const ConvNextDesign& d) {
  std::vector<Convolution> steps;
  int64_t in = d.num_channels;
  for (const ConvNextStemStep& step : d.stem) {
    steps.emplace_back(scope / step.name, in, step.width, step.window, convnext_options(step.options, d));
    in = step.width;
  }
  return steps;
}

}  // namespace

struct ConvNextTrunk::Stage {
  Stage(const Scope& scope, const ConvNextDesign& d, size_t index, int64_t first_block) {
    const int64_t out = d.hidden_sizes[index], in = d.hidden_sizes[index > 0 ? index - 1 : 0];
    if (index > 0 || d.first_shrinks) {
      norm.emplace(scope / d.names.downsampling / 0, in, d.norm_epsilon);
      downsampling.emplace(scope / d.names.downsampling / 1, in, out, Axes{2, 2},
                           convnext_options({.strides = {2, 2}}, d));
    }
    for (int64_t i = 0; i < d.depths[index]; ++i) {
      const double place =
          static_cast<double>(first_block + i) / static_cast<double>(std::max<int64_t>(d.num_blocks - 1, 1));
      blocks.emplace_back(scope / d.names.blocks / i, d, out, d.windows[index], d.drop_path_rate * place);
    }
  }
  Tensor operator()(Tensor x, ForwardContext& context) const {
    if (downsampling) x = (*downsampling)(norm_of_channels(*norm, x, context), context);
    for (const ConvNextBlock& block : blocks) x = block(x, context);
    return x;
  }
  std::optional<LayerNorm> norm;
  std::optional<Convolution> downsampling;
  std::vector<ConvNextBlock> blocks;
};

ConvNextTrunk::ConvNextTrunk(const Scope& scope, const ConvNextDesign& d)
    : stem_(convnext_stem(scope, d)), stem_norm_(scope / d.stem_norm, d.hidden_sizes[0], d.norm_epsilon) {
  int64_t block = 0;
  for (size_t i = 0; i < d.depths.size(); ++i) {
    stages_.emplace_back(scope / d.names.stages / static_cast<int64_t>(i), d, i, block);
    block += d.depths[i];
  }
}

ConvNextTrunk::~ConvNextTrunk() = default;

std::vector<Tensor> ConvNextTrunk::operator()(const Tensor& image, ForwardContext& context) const {
  Tensor x = image;
  for (const Convolution& step : stem_) x = step(x, context);
  std::vector<Tensor> states{x = norm_of_channels(stem_norm_, x, context)};
  for (const Stage& stage : stages_) states.push_back(x = stage(x, context));
  return states;
}

}  // namespace transom
