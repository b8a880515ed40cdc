// SPDX-License-Identifier: Apache-2.0
// The convolutional body that RT-DETR looks through: a ResNet with a deep stem (He et al., 2018), whose norms are
// frozen or are trained.
#pragma once

#include <variant>
#include <vector>

#include "models/families/resnet/resnet_body.h"
#include "models/nn/vision/frozen_batch_norm.h"

namespace transom {

class RTDetrBackbone {
 public:
  RTDetrBackbone(const Config& config, const Scope& scope);
  // [N, channels, H, W] -> maps of the stages that the configuration names, each [N, C, h, w], the finest first.
  std::vector<Tensor> operator()(const Tensor& image, ForwardContext& context) const;
  const std::vector<int64_t>& widths() const { return widths_; }  // channels of the maps
  int64_t num_channels() const;                                   // of pictures

 private:
  using Frozen = ResNetBody<FrozenBatchNorm>;
  using Trained = ResNetBody<BatchNorm>;
  using Body = std::variant<Frozen, Trained>;
  static Body make_body(const Config& config, const Config& backbone, const Scope& scope);

  Config backbone_;
  Body body_;
  std::vector<int64_t> stages_, widths_;  // 0 is the stem
};

}  // namespace transom
