// SPDX-License-Identifier: Apache-2.0
// The body of timm's ResNets, with deep stems, average-pooled shortcuts and squeeze-and-excitation. Also the backbone
// of detectors, whose norms are frozen.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "models/families/timm_resnet/timm_resnet_config.h"
#include "models/nn/layers.h"
#include "models/shared/image_classifier.h"

namespace transom {

inline Convolution::Options timm_window(int64_t window, int64_t stride, int64_t dilation = 1, int64_t groups = 1) {
  const Axes padding(2, ((stride - 1) + dilation * (window - 1)) / 2);
  return {.strides = {stride, stride},
          .low = padding,
          .high = padding,
          .dilations = {dilation, dilation},
          .groups = groups,
          .bias = false};
}

// Channels weighed by what the mean of the image says of them (Hu et al., 2017).
class TimmSqueezeExcite {
 public:
  TimmSqueezeExcite(const Scope& scope, int64_t channels)
      : fc1_(scope / "fc1", channels, reduced(channels), {1, 1}, {}),
        fc2_(scope / "fc2", reduced(channels), channels, {1, 1}, {}) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    return x * sigmoid(fc2_(relu(fc1_(mean(x, {2, 3}, true), context)), context));
  }

 private:
  // A sixteenth, rounded to a multiple of 8.
  static int64_t reduced(int64_t channels) { return std::max<int64_t>(8, (channels + 64) / 128 * 8); }
  Convolution fc1_, fc2_;
};

struct TimmResidualShape {
  int64_t in, planes, stride, dilation, first_dilation;
  double drop_path;
};

template <typename Norm>
class TimmBlock {
 public:
  TimmBlock(const Scope& scope, const TimmResNetConfig& c, const TimmResidualShape& s, bool downsample)
      : activation_(c.act_layer), drop_path_(s.drop_path), pool_(c.avg_down && s.stride != 1) {
    const int64_t out = s.planes * c.expansion();
    const auto add = [&](int64_t from, int64_t to, const Convolution::Options& options, int64_t window) {
      const std::string number = std::to_string(convolutions_.size() + 1);
      convolutions_.emplace_back(scope / ("conv" + number), from, to, Axes{window, window}, options);
      norms_.emplace_back(scope / ("bn" + number), to);
    };
    if (c.basic) {
      const int64_t first = s.planes / c.reduce_first;
      add(s.in, first, padded(s.first_dilation, s.stride, 1), 3);
      add(first, out, padded(s.dilation, 1, 1), 3);
    } else {
      const int64_t width = s.planes * c.base_width / 64 * c.cardinality, first = width / c.reduce_first;
      add(s.in, first, timm_window(1, 1), 1);
      add(first, width, padded(s.first_dilation, s.stride, c.cardinality), 3);
      add(width, out, timm_window(1, 1), 1);
    }
    if (c.squeeze_excite) se_.emplace(scope / "se", out);
    if (downsample) {
      const Scope names = scope / "downsample";
      if (c.avg_down) {
        downsample_.emplace(names / 1, s.in, out, Axes{1, 1}, timm_window(1, 1));
      } else {
        const int64_t window = s.stride == 1 && s.dilation == 1 ? 1 : c.down_kernel_size;
        downsample_.emplace(names / 0, s.in, out, Axes{window, window},
                            timm_window(window, s.stride, window > 1 ? s.first_dilation : 1));
      }
      downsample_norm_.emplace(names / (c.avg_down ? 2 : 1), out);
    }
  }

  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    Tensor h = x;
    for (size_t i = 0; i < convolutions_.size(); ++i) {
      h = norms_[i](convolutions_[i](h, context), context);
      if (i + 1 < convolutions_.size()) h = activation(activation_, h);
    }
    if (se_) h = (*se_)(h, context);
    return activation(activation_, drop_path_(h, context) + shortcut(x, context));
  }

 private:
  static Convolution::Options padded(int64_t dilation, int64_t stride, int64_t groups) {
    Convolution::Options options = timm_window(3, stride, dilation, groups);
    options.low = options.high = {dilation, dilation};
    return options;
  }
  Tensor shortcut(const Tensor& x, ForwardContext& context) const {
    if (!downsample_) return x;
    // Windows that begin inside the image count, with what of them lies inside.
    const Tensor pooled =
        pool_ ? average_pool(x, {.window = {2, 2}, .low = {0, 0}, .high = {x.dim(2) % 2, x.dim(3) % 2}}) : x;
    return (*downsample_norm_)((*downsample_)(pooled, context), context);
  }

  std::string activation_;
  DropPath drop_path_;
  bool pool_;
  std::vector<Convolution> convolutions_;
  std::vector<Norm> norms_;
  std::optional<TimmSqueezeExcite> se_;
  std::optional<Convolution> downsample_;
  std::optional<Norm> downsample_norm_;
};

// `stages`: how many are made; features of later ones are not asked for.
template <typename Norm>
class TimmResNet {
 public:
  TimmResNet(const Config& config, const Scope& scope, size_t stages = 4) : c_(config) {
    c_.layers.resize(std::min(stages, c_.layers.size()));
    const int64_t width = c_.stem_channels();
    if (c_.deep_stem()) {
      const int64_t first = c_.stem_type.find("tiered") != std::string::npos ? c_.stem_width / 4 * 3 : c_.stem_width;
      const Scope stem = scope / "conv1";
      stem_.emplace_back(stem / 0, c_.in_chans, first, Axes{3, 3}, timm_window(3, 2));
      stem_norms_.emplace_back(stem / 1, first);
      stem_.emplace_back(stem / 3, first, c_.stem_width, Axes{3, 3}, timm_window(3, 1));
      stem_norms_.emplace_back(stem / 4, c_.stem_width);
      stem_.emplace_back(stem / 6, c_.stem_width, width, Axes{3, 3}, timm_window(3, 1));
    } else {
      stem_.emplace_back(scope / "conv1", c_.in_chans, width, Axes{7, 7},
                         Convolution::Options{.strides = {2, 2}, .low = {3, 3}, .high = {3, 3}, .bias = false});
    }
    stem_norms_.emplace_back(scope / "bn1", width);
    if (c_.replace_stem_pool) {
      stem_.emplace_back(scope / "maxpool" / 0, width, width, Axes{3, 3}, timm_window(3, 2));
      stem_norms_.emplace_back(scope / "maxpool" / 1, width);
    }
    make_stages(scope, width);
  }

  FeatureMaps operator()(const Tensor& image, ForwardContext& context) const {
    Tensor x = image;
    std::vector<Tensor> states;
    for (size_t i = 0; i < stem_.size(); ++i) {
      x = activation(c_.act_layer, stem_norms_[i](stem_[i](x, context), context));
      if (i + (c_.replace_stem_pool ? 2 : 1) == stem_.size()) states.push_back(x);
    }
    if (!c_.replace_stem_pool) x = max_pool(x, {.window = {3, 3}, .strides = {2, 2}, .low = {1, 1}, .high = {1, 1}});
    for (const auto& stage : stages_) {
      for (const TimmBlock<Norm>& block : stage) x = block(x, context);
      states.push_back(x);
    }
    return {x, Dropout(c_.drop_rate)(timm_pooled(x, c_.global_pool), context), states};
  }
  int64_t num_channels() const { return c_.in_chans; }
  int64_t width() const {
    return c_.channels[c_.layers.size() - 1] * c_.expansion() * timm_pooled_parts(c_.global_pool);
  }
  int64_t width_of_stage(int64_t stage) const {  // 0: the stem
    return stage == 0 ? c_.stem_channels() : c_.channels[static_cast<size_t>(stage) - 1] * c_.expansion();
  }
  int64_t num_classes() const { return c_.num_classes; }

 private:
  void make_stages(const Scope& scope, int64_t in) {
    int64_t blocks = 0, block = 0, net_stride = 4, dilation = 1, previous_dilation = 1;
    for (const int64_t count : c_.layers) blocks += count;
    for (size_t i = 0; i < c_.layers.size(); ++i) {
      int64_t stride = i == 0 ? 1 : 2;
      if (net_stride >= c_.output_stride) {
        dilation *= stride;
        stride = 1;
      } else {
        net_stride *= stride;
      }
      const int64_t planes = c_.channels[i], out = planes * c_.expansion();
      std::vector<TimmBlock<Norm>>& stage = stages_.emplace_back();
      for (int64_t k = 0; k < c_.layers[i]; ++k, ++block) {
        const double place = static_cast<double>(block) / static_cast<double>(std::max<int64_t>(blocks - 1, 1));
        const TimmResidualShape shape{
            in, planes, k == 0 ? stride : 1, dilation, previous_dilation, c_.drop_path_rate * place};
        stage.emplace_back(scope / ("layer" + std::to_string(i + 1)) / k, c_, shape,
                           k == 0 && (stride != 1 || in != out));
        previous_dilation = dilation;
        in = out;
      }
    }
  }

  TimmResNetConfig c_;
  std::vector<Convolution> stem_;
  std::vector<Norm> stem_norms_;
  std::vector<std::vector<TimmBlock<Norm>>> stages_;
};

}  // namespace transom
