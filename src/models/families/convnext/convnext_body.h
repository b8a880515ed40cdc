// SPDX-License-Identifier: Apache-2.0
// What ConvNeXt (Liu et al., 2022) and ConvNeXt V2 (Woo et al., 2023) are made of, under the names that a checkpoint
// has for it: a depthwise convolution, then a feed-forward layer over the channels, with scaled residual branches.
// [B, C, H, W], channels last inside a block.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/nn/layers.h"
#include "models/nn/vision/channel_norm.h"
#include "models/shared/vision_inputs.h"

namespace transom {

struct ConvNextNames {
  const char *stages, *downsampling, *blocks, *depthwise, *norm, *widening, *narrowing, *response, *scale;
};

struct ConvNextStemStep {
  std::string name;
  int64_t width;
  Axes window;
  Convolution::Options options;
};

struct ConvNextDesign {
  ConvNextNames names;
  int64_t num_channels;
  std::vector<ConvNextStemStep> stem;  // convolutions, one behind the other
  std::string stem_norm;
  std::vector<int64_t> hidden_sizes, depths;
  std::vector<int64_t> windows;  // of the depthwise convolutions of each stage
  bool first_shrinks = false;    // the first stage halves the map, as the others do
  std::string hidden_act;
  double norm_epsilon = 1e-6;         // of all norms but the last
  std::optional<double> layer_scale;  // of new weights; none: there is no such weight
  double drop_path_rate, deviation;
  int64_t num_blocks;        // by which the rates of drop_path grow
  bool bias = true;          // of the convolutions over places
  bool pointwise = false;    // layers over channels are convolutions of one pixel
  bool responds = false;     // what comes out of a channel is weighed by how strong the channel is
  size_t response_axes = 1;  // of the weights of that, whose last axis is the channels
};

// The stem and the stages.
class ConvNextTrunk {
 public:
  ConvNextTrunk(const Scope& scope, const ConvNextDesign& design);
  ~ConvNextTrunk();
  // image [B, C, H, W] -> what is behind the stem and behind each stage.
  std::vector<Tensor> operator()(const Tensor& image, ForwardContext& context) const;

 private:
  struct Stage;
  std::vector<Convolution> stem_;
  LayerNorm stem_norm_;
  std::vector<Stage> stages_;
};

}  // namespace transom
