// SPDX-License-Identifier: Apache-2.0
// The hybrid encoder of RT-DETR (Zhao et al., 2023): places of the coarsest map look at each other, then maps are
// joined from the coarsest to the finest and back. B batch, C width.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/families/detr/detr_layers.h"
#include "models/families/rt_detr/rt_detr_config.h"

namespace transom {

// A convolution without a bias, a batch norm and perhaps an activation.
class RTDetrConvolution {
 public:
  struct Form {
    int64_t window = 1, stride = 1;
    std::string activation = {};  // empty: none
    double epsilon = 1e-5;
    const char *convolution = "conv", *norm = "norm";  // names
  };
  RTDetrConvolution(const Scope& scope, int64_t in, int64_t out, const Form& form);
  Tensor operator()(const Tensor& x, ForwardContext& context) const;

 private:
  std::string activation_;
  Convolution conv_;
  BatchNorm norm_;
};

// Two maps joined to one of width C (Wang et al., CSPNet, 2019), of which one half goes through three blocks with a
// wide and a narrow window each (Ding et al., RepVGG, 2021).
class RTDetrJoin {
 public:
  RTDetrJoin(const Scope& scope, const RTDetrConfig& c);
  Tensor operator()(const Tensor& one, const Tensor& other, ForwardContext& context) const;

 private:
  struct Block {
    RTDetrConvolution wide, narrow;
  };
  std::string activation_;
  RTDetrConvolution conv1_, conv2_;
  std::vector<Block> bottlenecks_;
  std::optional<RTDetrConvolution> conv3_;
};

class RTDetrEncoder {
 public:
  RTDetrEncoder(const Scope& scope, const RTDetrConfig& c);
  // Maps [B, C, h, w], each of half the extents of the one before it -> as many of the same extents.
  std::vector<Tensor> operator()(std::vector<Tensor> maps, ForwardContext& context) const;

 private:
  Tensor among_places(const std::vector<DetrEncoderLayer>& layers, const Tensor& map, ForwardContext& context) const;

  RTDetrConfig c_;
  std::vector<std::vector<DetrEncoderLayer>> encoder_;
  std::vector<RTDetrConvolution> lateral_convs_, downsample_convs_;
  std::vector<RTDetrJoin> fpn_blocks_, pan_blocks_;
};

}  // namespace transom
