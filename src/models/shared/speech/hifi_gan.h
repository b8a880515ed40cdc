// SPDX-License-Identifier: Apache-2.0
// HiFi-GAN (Kong et al., 2020): from frames of a spectrum, or of a flow, to samples. B batch, C channels, S frames.
#pragma once

#include <memory>
#include <vector>

#include "files/config/config.h"
#include "transom/layers.h"

namespace transom {

struct HifiGanConfig {
  // `channels` of a frame; the rates and windows of the family where the configuration has none.
  HifiGanConfig(const Config& config, int64_t channels, const std::vector<int64_t>& family_rates,
                const std::vector<int64_t>& family_windows);
  int64_t channels, first_channels;
  std::vector<int64_t> rates, windows;  // of each enlargement
  std::vector<int64_t> block_windows;
  std::vector<std::vector<int64_t>> block_dilations;
  double leaky_slope;
  int64_t speaker_width = 0;  // of a vector that tells the voice; 0: none is told
  bool last_bias = true;

  int64_t samples_per_frame() const;
};

class HifiGanNetwork;

class HifiGan {
 public:
  HifiGan(const Scope& scope, const HifiGanConfig& config);
  // frames [B, C, S], speaker [B, E, 1] or empty -> [B, samples]
  Tensor operator()(const Tensor& frames, const Tensor& speaker, const ForwardContext& context) const;

 private:
  std::shared_ptr<const HifiGanNetwork> network_;
};

// A convolution over time that keeps its length: [B, in, T] -> [B, out, T].
Convolution same_length_convolution(const Scope& scope, int64_t in, int64_t out, int64_t window, int64_t dilation = 1,
                                    int64_t groups = 1, bool bias = true);

}  // namespace transom
