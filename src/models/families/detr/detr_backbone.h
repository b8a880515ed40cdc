// SPDX-License-Identifier: Apache-2.0
// The convolutional body that a detector looks through: a ResNet of Transformers or of timm, whose norms are frozen.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "models/families/resnet/resnet_body.h"
#include "models/families/timm_resnet/timm_resnet_body.h"
#include "models/nn/vision/frozen_batch_norm.h"

namespace transom {

// Which stages of a backbone a detector looks at: out_indices, else out_features (`name` and a number), else the last.
std::vector<int64_t> backbone_stages(const Config& backbone, std::string_view name, int64_t last);

class DetrBackbone {
 public:
  DetrBackbone(const Config& config, const Scope& scope);
  // [N, channels, H, W] -> maps of the stages that the configuration names, each [N, C, h, w], the finest first.
  std::vector<Tensor> operator()(const Tensor& image, ForwardContext& context) const;
  const std::vector<int64_t>& widths() const { return widths_; }  // channels of the maps
  int64_t num_channels() const;                                   // of pictures

 private:
  using Plain = ResNetBody<FrozenBatchNorm>;
  using Timm = TimmResNet<FrozenBatchNorm>;
  using Body = std::variant<Plain, Timm>;
  static Body make_body(const Config& backbone, const std::vector<int64_t>& stages, const Scope& scope);

  Config backbone_;
  std::vector<int64_t> stages_, widths_;  // 0 is the stem
  Body body_;
};

}  // namespace transom
