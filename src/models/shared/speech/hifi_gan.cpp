// SPDX-License-Identifier: Apache-2.0
#include "models/shared/speech/hifi_gan.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/json/json.h"
#include "models/nn/vision/convolution.h"
#include "models/shared/speech/sized_fields.h"
#include "transom/ops.h"

namespace transom {

Convolution same_length_convolution(const Scope& scope, int64_t in, int64_t out, int64_t window, int64_t dilation,
                                    int64_t groups, bool bias) {
  const int64_t all = (window - 1) * dilation, low = all / 2;
  return {scope,
          in,
          out,
          {window},
          {.low = {low}, .high = {all - low}, .dilations = {dilation}, .groups = groups, .bias = bias}};
}

namespace {

constexpr size_t kMostEnlargements = 16, kMostBlocks = 16, kMostDilations = 16;
constexpr int64_t kMostSamplesOfAFrame = 1 << 16;

void expect_all(const Config& config, const char* name, const std::vector<int64_t>& values, size_t most_values,
                int64_t most) {
  if (values.empty() || values.size() > most_values)
    fail("{}: {}: expected 1 to {} numbers, found {}", config.where(), name, most_values, values.size());
  for (const int64_t value : values)
    if (value < 1 || value > most)
      fail("{}: {}: expected numbers from 1 to {}, found {}", config.where(), name, most, value);
}

std::vector<std::vector<int64_t>> dilations_of(const Config& config) {
  constexpr const char* kName = "resblock_dilation_sizes";
  if (!config.has(kName)) return {{1, 3, 5}, {1, 3, 5}, {1, 3, 5}};
  const Json json = parse_json(config.get_json(kName), config.where());
  if (!json.is_array() || json.size() > kMostBlocks)
    fail("{}: {}: expected a list of lists of numbers", config.where(), kName);
  std::vector<std::vector<int64_t>> all;
  for (const Json& list : json) {
    std::vector<int64_t>& dilations = all.emplace_back();
    if (!list.is_array() || list.empty() || list.size() > kMostDilations)
      fail("{}: {}: expected lists of 1 to {} numbers", config.where(), kName, kMostDilations);
    for (const Json& value : list) {
      if (!value.is_number_integer() || value.get<double>() < 1 || value.get<double>() > 1024)
        fail("{}: {}: expected numbers from 1 to 1024", config.where(), kName);
      dilations.push_back(value.get<int64_t>());
    }
  }
  return all;
}

Tensor leaky_relu_of(const Tensor& x, double slope) {
  return select(greater(x, zeros(x.shape(), x.dtype())), x, x * slope);
}

// Puts zeros between moments and convolves: torch's ConvTranspose1d with a padding of (window - stride) / 2.
class HifiGanUpsampler {
 public:
  HifiGanUpsampler(const Scope& scope, int64_t in, int64_t out, int64_t window, int64_t stride)
      : path_(scope.path()),
        window_(window),
        stride_(stride),
        weight_(scope.parameter("weight", {in, out, window}, Initial::normal(0.02))),
        bias_(scope.parameter("bias", {out}, Initial::zeros())) {}
  Tensor operator()(const Tensor& x, const ForwardContext& context) const {
    const ModuleScope module(path_);
    const int64_t B = x.dim(0), C = x.dim(1), T = x.dim(2), beside = window_ - 1 - (window_ - stride_) / 2;
    Tensor spread = pad(unsqueeze(x, 3), {0, 0, 0, 0}, {0, 0, 0, stride_ - 1});
    spread = slice(reshape(spread, {B, C, T * stride_}), 2, 0, (T - 1) * stride_ + 1);
    const Tensor weight = reverse(permute(weight_->value, {1, 0, 2}), {2});
    const Tensor y = convolution(spread, weight, {.low = {beside}, .high = {beside}}, context.computing);
    return y + over_channels(cast(bias_->value, y.dtype()), y);
  }

 private:
  std::string path_;
  int64_t window_, stride_;
  std::shared_ptr<Parameter> weight_, bias_;
};

class HifiGanBlock {
 public:
  HifiGanBlock(const Scope& scope, int64_t channels, int64_t window, const std::vector<int64_t>& dilations,
               double slope)
      : slope_(slope) {
    for (size_t i = 0; i < dilations.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      first_.push_back(same_length_convolution(scope / "convs1" / at, channels, channels, window, dilations[i]));
      second_.push_back(same_length_convolution(scope / "convs2" / at, channels, channels, window));
    }
  }
  Tensor operator()(Tensor x, const ForwardContext& context) const {
    for (size_t i = 0; i < first_.size(); ++i)
      x = x + second_[i](leaky_relu_of(first_[i](leaky_relu_of(x, slope_), context), slope_), context);
    return x;
  }

 private:
  double slope_;
  std::vector<Convolution> first_, second_;
};

}  // namespace

HifiGanConfig::HifiGanConfig(const Config& config, int64_t channels_of_frame, const std::vector<int64_t>& family_rates,
                             const std::vector<int64_t>& family_windows)
    : channels(channels_of_frame),
      first_channels(sized_field(config, "upsample_initial_channel", 512)),
      rates(config.get_ints("upsample_rates", family_rates)),
      windows(config.get_ints("upsample_kernel_sizes", family_windows)),
      block_windows(config.get_ints("resblock_kernel_sizes", {3, 7, 11})),
      block_dilations(dilations_of(config)),
      leaky_slope(config.get_float("leaky_relu_slope", 0.1)) {
  expect_all(config, "upsample_rates", rates, kMostEnlargements, 1024);
  expect_all(config, "upsample_kernel_sizes", windows, kMostEnlargements, 1024);
  expect_all(config, "resblock_kernel_sizes", block_windows, kMostBlocks, 1023);
  if (windows.size() != rates.size())
    fail("{}: upsample_kernel_sizes: expected {} numbers, as upsample_rates has, found {}", config.where(),
         rates.size(), windows.size());
  int64_t samples = 1;
  for (size_t i = 0; i < rates.size(); ++i) {
    if (windows[i] < rates[i])
      fail("{}: upsample_kernel_sizes: expected at least the rate {}, found {}", config.where(), rates[i], windows[i]);
    samples = std::min(samples * rates[i], kMostSamplesOfAFrame + 1);
  }
  if (samples > kMostSamplesOfAFrame)
    fail("{}: upsample_rates: expected at most {} samples of a frame", config.where(), kMostSamplesOfAFrame);
  if (first_channels >> rates.size() < 1)
    fail("{}: upsample_initial_channel: expected at least 2 ** {}, found {}", config.where(), rates.size(),
         first_channels);
  for (const int64_t window : block_windows)
    if (window % 2 == 0) fail("{}: resblock_kernel_sizes: expected odd numbers, found {}", config.where(), window);
  if (block_dilations.size() != block_windows.size())
    fail("{}: resblock_dilation_sizes: expected {} lists, as resblock_kernel_sizes has numbers, found {}",
         config.where(), block_windows.size(), block_dilations.size());
}

int64_t HifiGanConfig::samples_per_frame() const {
  int64_t samples = 1;
  for (const int64_t rate : rates) samples *= rate;
  return samples;
}

class HifiGanNetwork {
 public:
  HifiGanNetwork(const Scope& scope, const HifiGanConfig& c)
      : slope_(c.leaky_slope), conv_pre_(same_length_convolution(scope / "conv_pre", c.channels, c.first_channels, 7)) {
    int64_t channels = c.first_channels;
    for (size_t i = 0; i < c.rates.size(); ++i, channels /= 2) {
      upsampler_.emplace_back(scope / "upsampler" / static_cast<int64_t>(i), channels, channels / 2, c.windows[i],
                              c.rates[i]);
      std::vector<HifiGanBlock>& blocks = blocks_.emplace_back();
      for (size_t k = 0; k < c.block_windows.size(); ++k)
        blocks.emplace_back(scope / "resblocks" / static_cast<int64_t>(i * c.block_windows.size() + k), channels / 2,
                            c.block_windows[k], c.block_dilations[k], c.leaky_slope);
    }
    conv_post_.emplace(same_length_convolution(scope / "conv_post", channels, 1, 7, 1, 1, c.last_bias));
    if (c.speaker_width > 0)
      cond_.emplace(same_length_convolution(scope / "cond", c.speaker_width, c.first_channels, 1));
  }
  Tensor operator()(const Tensor& frames, const Tensor& speaker, const ForwardContext& context) const {
    Tensor x = conv_pre_(frames, context);
    if (speaker.defined() && cond_) x = x + (*cond_)(speaker, context);
    for (size_t i = 0; i < upsampler_.size(); ++i) {
      x = upsampler_[i](leaky_relu_of(x, slope_), context);
      Tensor sum;
      for (const HifiGanBlock& block : blocks_[i]) sum = sum.defined() ? sum + block(x, context) : block(x, context);
      x = sum / static_cast<double>(blocks_[i].size());
    }
    // The last slope is torch's, whatever the configuration says.
    return squeeze(tanh((*conv_post_)(activation("leaky_relu", x), context)), 1);
  }

 private:
  double slope_;
  Convolution conv_pre_;
  std::vector<HifiGanUpsampler> upsampler_;
  std::vector<std::vector<HifiGanBlock>> blocks_;
  std::optional<Convolution> conv_post_, cond_;
};

HifiGan::HifiGan(const Scope& scope, const HifiGanConfig& config)
    : network_(std::make_shared<HifiGanNetwork>(scope, config)) {}

Tensor HifiGan::operator()(const Tensor& frames, const Tensor& speaker, const ForwardContext& context) const {
  return (*network_)(frames, speaker, context);
}

}  // namespace transom
