// SPDX-License-Identifier: Apache-2.0
// The body of ResNet (He et al., 2015), version 1.5: the stride is in the 3x3 convolution unless
// downsample_in_bottleneck. Also the backbone of detectors, whose norms are frozen.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "models/family.h"
#include "models/nn/layers.h"
#include "models/shared/image_classifier.h"

namespace transom {

struct ResNetConfig {
  // `deep`: the variant D of He et al. (2018), whose stem is three convolutions, and whose shortcuts average before
  // they project.
  explicit ResNetConfig(const Config& config, bool deep = false)
      : deep(deep),
        num_channels(config.get_int("num_channels", 3)),
        embedding_size(config.get_int("embedding_size", 64)),
        hidden_sizes(config.get_ints("hidden_sizes", {256, 512, 1024, 2048})),
        depths(config.get_ints("depths", {3, 4, 6, 3})),
        layer_type(config.get_string("layer_type", "bottleneck")),
        hidden_act(config.get_string("hidden_act", "relu")),
        downsample_in_first_stage(config.get_bool("downsample_in_first_stage", false)),
        downsample_in_bottleneck(config.get_bool("downsample_in_bottleneck", false)) {
    if (layer_type != "basic" && layer_type != "bottleneck")
      fail("{}: layer_type: expected basic or bottleneck, found {}", config.where(), quoted(layer_type));
    if (hidden_sizes.empty() || hidden_sizes.size() != depths.size())
      fail("{}: hidden_sizes and depths: expected one number each for every stage, found {} and {}", config.where(),
           hidden_sizes.size(), depths.size());
  }
  bool deep;
  int64_t num_channels, embedding_size;
  std::vector<int64_t> hidden_sizes, depths;
  std::string layer_type, hidden_act;
  bool downsample_in_first_stage, downsample_in_bottleneck;
};

template <typename Norm>
class ResNetConvLayer {
 public:
  ResNetConvLayer(const Scope& scope, int64_t in, int64_t out, int64_t window, int64_t stride,
                  std::string activation = "relu", int64_t groups = 1)
      : convolution_(scope / "convolution", in, out, {window, window}, geometry(window, stride, groups)),
        normalization_(scope / "normalization", out),
        activation_(std::move(activation)) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    return activation(activation_, normalization_(convolution_(x, context), context));
  }
  const Convolution& convolution() const { return convolution_; }

 private:
  // Half the window is padded at both ends.
  static Convolution::Options geometry(int64_t window, int64_t stride, int64_t groups) {
    const Axes padding(2, window / 2);
    return {.strides = {stride, stride}, .low = padding, .high = padding, .groups = groups, .bias = false};
  }
  Convolution convolution_;
  Norm normalization_;
  std::string activation_;
};

// Two 3x3 convolutions, or a narrow 3x3 one between two 1x1, beside a shortcut.
template <typename Norm>
class ResNetLayer {
 public:
  ResNetLayer(const Scope& scope, const ResNetConfig& c, int64_t in, int64_t out, int64_t stride, bool first)
      : activation_(c.hidden_act) {
    if (c.deep) make_deep_shortcut(scope, c, in, out, stride, first);
    else if (in != out || stride != 1) shortcut_.emplace(scope / "shortcut", in, out, 1, stride, "linear");
    const auto add = [&](int64_t from, int64_t to, int64_t window, int64_t step, const char* act) {
      layer_.emplace_back(scope / "layer" / static_cast<int64_t>(layer_.size()), from, to, window, step, act);
    };
    if (c.layer_type == "basic") {
      add(in, out, 3, stride, "relu");
      add(out, out, 3, 1, "linear");
    } else {
      const int64_t narrow = out / 4;
      add(in, narrow, 1, c.downsample_in_bottleneck ? stride : 1, "relu");
      add(narrow, narrow, 3, c.downsample_in_bottleneck ? 1 : stride, "relu");
      add(narrow, out, 1, 1, "linear");
    }
  }
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    if (pools_) {
      Tensor h = x;
      for (const ResNetConvLayer<Norm>& layer : layer_) h = layer(h, context);
      return activation(activation_, h + (*shortcut_)(halved(x), context));
    }
    // Where the layers read integers, these are what goes from block to block: a byte for each number.
    const Convolution& reader = layer_[0].convolution();
    const Tensor codes = reader.codes_of(x);
    Tensor h = codes.defined() ? codes : x;
    for (const ResNetConvLayer<Norm>& layer : layer_) h = layer(h, context);
    if (!codes.defined()) return activation(activation_, h + (shortcut_ ? (*shortcut_)(x, context) : x));
    const bool shared = shortcut_ && shortcut_->convolution().reads_as(reader);
    const Tensor kept = shared ? codes : reader.numbers_of(codes);
    return activation(activation_, h + (shortcut_ ? (*shortcut_)(kept, context) : kept));
  }

 private:
  // As Transformers' detectors have it: a basic layer that widens halves the map whatever its stride is.
  void make_deep_shortcut(const Scope& scope, const ResNetConfig& c, int64_t in, int64_t out, int64_t stride,
                          bool first) {
    const bool basic = c.layer_type == "basic";
    if (basic ? !first : in == out && stride == 1) return;
    pools_ = basic ? in != out : stride == 2;
    if (pools_ && stride != 2)
      fail("{}: expected embedding_size to be the first of hidden_sizes, {}, found {}", scope.path(), out, in);
    const Scope names = scope / "shortcut";
    shortcut_.emplace(pools_ ? names / 1 : names, in, out, 1, pools_ ? 1 : stride, "linear");
  }
  // The means of squares of two by two places, of which the last ones may be cut off.
  static Tensor halved(const Tensor& x) {
    return average_pool(x, {.window = {2, 2}, .low = {0, 0}, .high = {x.dim(2) % 2, x.dim(3) % 2}});
  }

  std::string activation_;
  bool pools_ = false;  // before the shortcut
  std::optional<ResNetConvLayer<Norm>> shortcut_;
  std::vector<ResNetConvLayer<Norm>> layer_;
};

template <typename Norm>
class ResNetBody {
 public:
  static constexpr const char* kName = "resnet";
  explicit ResNetBody(const Config& config, const Scope& scope, bool deep = false) : c_(config, deep) {
    const Scope stem = scope / "embedder" / "embedder";
    const int64_t half = c_.embedding_size / 2;
    const auto add = [&](const Scope& names, int64_t from, int64_t to, int64_t window, int64_t stride) {
      embedder_.emplace_back(names, from, to, window, stride, c_.hidden_act);
    };
    if (deep) {
      add(stem / 0, c_.num_channels, half, 3, 2);
      add(stem / 1, half, half, 3, 1);
      add(stem / 2, half, c_.embedding_size, 3, 1);
    } else {
      add(stem, c_.num_channels, c_.embedding_size, 7, 2);
    }
    int64_t in = c_.embedding_size;
    for (size_t i = 0; i < c_.depths.size(); ++i) {
      const Scope layers = scope / "encoder" / "stages" / static_cast<int64_t>(i) / "layers";
      std::vector<ResNetLayer<Norm>>& stage = stages_.emplace_back();
      for (int64_t k = 0; k < c_.depths[i]; ++k) {
        const bool down = k == 0 && (i > 0 || c_.downsample_in_first_stage);
        stage.emplace_back(layers / k, c_, in, c_.hidden_sizes[i], down ? 2 : 1, k == 0);
        in = c_.hidden_sizes[i];
      }
    }
  }
  FeatureMaps operator()(const Tensor& image, ForwardContext& context) const {
    Tensor x = image;
    for (const ResNetConvLayer<Norm>& layer : embedder_) x = layer(x, context);
    x = max_pool(x, {.window = {3, 3}, .strides = {2, 2}, .low = {1, 1}, .high = {1, 1}});
    std::vector<Tensor> states{x};
    for (const auto& stage : stages_) {
      for (const ResNetLayer<Norm>& layer : stage) x = layer(x, context);
      states.push_back(x);
    }
    return {x, global_mean(x), states};
  }
  int64_t num_channels() const { return c_.num_channels; }
  int64_t width() const { return c_.hidden_sizes.back(); }
  int64_t number_of_stages() const { return static_cast<int64_t>(stages_.size()); }
  int64_t width_of_stage(int64_t stage) const {  // 0: the stem
    return stage == 0 ? c_.embedding_size : c_.hidden_sizes[static_cast<size_t>(stage) - 1];
  }

 private:
  ResNetConfig c_;
  std::vector<ResNetConvLayer<Norm>> embedder_;
  std::vector<std::vector<ResNetLayer<Norm>>> stages_;
};

}  // namespace transom
