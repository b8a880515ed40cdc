// SPDX-License-Identifier: Apache-2.0
// timm's MobileNets and EfficientNets: inverted bottlenecks with depthwise convolutions and squeeze-and-excitation.
#include <algorithm>
#include <cmath>
#include <optional>

#include "models/families/timm_mobile/mobile_design.h"
#include "models/families/timm_wrapper/timm_network.h"
#include "models/nn/layers.h"

namespace transom {
namespace {

// A convolution over a square window, padded at both sides alike, or as TensorFlow does it.
class MobileConvolution {
 public:
  MobileConvolution(const Scope& scope, const MobileDesign& d, int64_t in, int64_t out, int64_t window,
                    int64_t stride = 1, int64_t groups = 1, bool bias = false)
      : window_(window),
        stride_(stride),
        pads_(d.same_padding && stride > 1),
        convolution_(scope, in, out, {window, window}, options(window, stride, groups, bias, pads_)) {}
  Tensor operator()(const Tensor& x, const ForwardContext& context) const {
    if (!pads_) return convolution_(x, context);
    Axes low(4, 0), high(4, 0);
    for (int64_t axis = 2; axis < 4; ++axis) {
      const int64_t extent = x.dim(axis), steps = (extent + stride_ - 1) / stride_;
      const int64_t padding = std::max<int64_t>((steps - 1) * stride_ + window_ - extent, 0);
      low[static_cast<size_t>(axis)] = padding / 2, high[static_cast<size_t>(axis)] = padding - padding / 2;
    }
    return convolution_(pad(x, low, high), context);
  }

 private:
  static Convolution::Options options(int64_t window, int64_t stride, int64_t groups, bool bias, bool pads) {
    const Axes padding(2, pads ? 0 : (stride - 1 + window - 1) / 2);
    return {.strides = {stride, stride}, .low = padding, .high = padding, .groups = groups, .bias = bias};
  }
  int64_t window_, stride_;
  bool pads_;
  Convolution convolution_;
};

BatchNorm mobile_norm(const Scope& scope, const MobileDesign& d, int64_t channels) {
  return {scope, channels, d.norm_epsilon, d.norm_momentum};
}

// Channels weighed by what the mean of the image says of them (Hu et al., 2017).
class MobileSqueezeExcite {
 public:
  // `squeeze`: a part of the channels of the block's input, in MobileNetV3 of those inside.
  MobileSqueezeExcite(const Scope& scope, const MobileDesign& d, const MobileBlock& block, int64_t channels)
      : hard_(d.pools_first),
        activation_(hard_ ? "relu" : d.act_layer),
        conv_reduce_(scope / "conv_reduce", channels, reduced(channels, block, hard_), {1, 1}, {}),
        conv_expand_(scope / "conv_expand", reduced(channels, block, hard_), channels, {1, 1}, {}) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    const Tensor gate = conv_expand_(activation(activation_, conv_reduce_(mean(x, {2, 3}, true), context)), context);
    return x * (hard_ ? activation("relu6", gate + 3.0) * (1.0 / 6.0) : sigmoid(gate));
  }

 private:
  static int64_t reduced(int64_t channels, const MobileBlock& block, bool hard) {
    const auto all = static_cast<double>(channels);
    if (hard) return MobileDesign::near_multiple(all * block.squeeze);
    const double expansion = block.kind == MobileBlock::Kind::kSeparable ? 1 : block.expansion;
    return std::max<int64_t>(1, static_cast<int64_t>(std::nearbyint(all * (block.squeeze / expansion))));
  }
  bool hard_;
  std::string activation_;
  Convolution conv_reduce_, conv_expand_;
};

// Convolutions with a norm each. Which one goes over the window, and where channels are squeezed, the kind says.
class MobileLayer {
 public:
  MobileLayer(const Scope& scope, const MobileDesign& d, const MobileBlock& block, int64_t in, double drop_path)
      : activation_(block.relu ? "relu" : d.act_layer),
        plain_(block.kind == MobileBlock::Kind::kPlain),
        // The last convolution of MobileNetV3, over single pixels, has none.
        shortcut_(block.stride == 1 && in == block.channels && (!plain_ || block.window > 1)),
        drop_path_(drop_path) {
    using Kind = MobileBlock::Kind;
    const int64_t out = block.channels, window = block.window, stride = block.stride,
                  inner = MobileDesign::near_multiple(static_cast<double>(in) * block.expansion);
    const auto add = [&](const char* name, int64_t from, int64_t to, int64_t size, int64_t step, int64_t groups) {
      convolutions_.emplace_back(scope / name, d, from, to, size, step, groups);
      norms_.push_back(mobile_norm(scope / ("bn" + std::to_string(convolutions_.size())), d, to));
    };
    const auto squeeze = [&](int64_t channels) {
      if (block.squeeze > 0) squeeze_.emplace(scope / "se", d, block, channels);
      squeezed_after_ = convolutions_.size();
    };
    switch (block.kind) {
      case Kind::kSeparable:
        add("conv_dw", in, in, window, stride, in);
        squeeze(in);
        add("conv_pw", in, out, 1, 1, 1);
        break;
      case Kind::kInverted:
        add("conv_pw", in, inner, 1, 1, 1);
        add("conv_dw", inner, inner, window, stride, inner);
        squeeze(inner);
        add("conv_pwl", inner, out, 1, 1, 1);
        break;
      case Kind::kFused:
        add("conv_exp", in, inner, window, stride, 1);
        squeeze(inner);
        add("conv_pwl", inner, out, 1, 1, 1);
        break;
      case Kind::kPlain:
        add("conv", in, out, window, stride, 1);
        break;
    }
  }

  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    Tensor h = x;
    for (size_t i = 0; i < convolutions_.size(); ++i) {
      h = norms_[i](convolutions_[i](h, context), context);
      if (plain_ || i + 1 < convolutions_.size()) h = activation(activation_, h);
      if (squeeze_ && i + 1 == squeezed_after_) h = (*squeeze_)(h, context);
    }
    return shortcut_ ? drop_path_(h, context) + x : h;
  }

 private:
  std::string activation_;
  bool plain_, shortcut_;
  DropPath drop_path_;
  std::vector<MobileConvolution> convolutions_;
  std::vector<BatchNorm> norms_;
  std::optional<MobileSqueezeExcite> squeeze_;
  size_t squeezed_after_ = 0;
};

class MobileNetwork : public TimmNetwork {
 public:
  MobileNetwork(const Config& config, const Scope& scope) : MobileNetwork(TimmArguments(config), scope) {}
  MobileNetwork(const TimmArguments& timm, const Scope& scope)
      : timm_(timm),
        d_(timm),
        conv_stem_(scope / "conv_stem", d_, timm.in_chans, d_.stem, 3, 2),
        bn1_(mobile_norm(scope / "bn1", d_, d_.stem)) {
    double blocks = 0, block = 0;
    for (const auto& stage : d_.stages) blocks += static_cast<double>(stage.size());
    int64_t in = d_.stem;
    for (size_t i = 0; i < d_.stages.size(); ++i) {
      std::vector<MobileLayer>& stage = stages_.emplace_back();
      for (const MobileBlock& each : d_.stages[i]) {
        const Scope names = scope / "blocks" / static_cast<int64_t>(i) / static_cast<int64_t>(stage.size());
        stage.emplace_back(names, d_, each, in, timm.drop_path_rate * block++ / blocks);
        in = each.channels;
      }
    }
    const int64_t read = d_.pools_first ? in * timm_pooled_parts(d_.global_pool) : in;
    conv_head_.emplace(scope / "conv_head", d_, read, d_.features, 1, 1, 1, d_.pools_first);
    if (!d_.pools_first) bn2_.emplace(mobile_norm(scope / "bn2", d_, d_.features));
  }

  Facts facts() const override {
    const int64_t width = d_.pools_first ? d_.features : d_.features * timm_pooled_parts(d_.global_pool);
    return {timm_.in_chans, timm_.num_classes, width, "classifier"};
  }

  FeatureMaps operator()(const Tensor& image, ForwardContext& context) const override {
    Tensor x = activation(d_.act_layer, bn1_(conv_stem_(image, context), context));
    std::vector<Tensor> states;
    // Before each stage that halves the map, and at the end.
    for (size_t i = 0; i < stages_.size(); ++i) {
      if (d_.stages[i][0].stride > 1) states.push_back(x);
      for (const MobileLayer& layer : stages_[i]) x = layer(x, context);
    }
    states.push_back(x);
    Dropout dropout(timm_.drop_rate);
    if (!d_.pools_first) {
      x = activation(d_.act_layer, (*bn2_)((*conv_head_)(x, context), context));
      return {x, dropout(timm_pooled(x, d_.global_pool), context), states};
    }
    const Tensor pooled = timm_pooled(x, d_.global_pool);
    const Tensor features =
        activation(d_.act_layer, (*conv_head_)(reshape(pooled, {pooled.dim(0), pooled.dim(1), 1, 1}), context));
    return {x, dropout(flatten(features, 1, 3), context), states};
  }

 private:
  TimmArguments timm_;
  MobileDesign d_;
  MobileConvolution conv_stem_;
  BatchNorm bn1_;
  std::vector<std::vector<MobileLayer>> stages_;
  std::optional<MobileConvolution> conv_head_;
  std::optional<BatchNorm> bn2_;
};

const RegisterTimm kTimmMobile({
    .examples = "mobilenetv3_small_100, tf_mobilenetv3_large_100, mobilenetv2_100, efficientnet_b0, "
                "tf_efficientnetv2_s, efficientnet_lite0",
    .knows = MobileDesign::is_name,
    .make = [](const Config& config, const Scope& scope) -> std::unique_ptr<TimmNetwork> {
      return std::make_unique<MobileNetwork>(config, scope);
    },
});

}  // namespace
}  // namespace transom
