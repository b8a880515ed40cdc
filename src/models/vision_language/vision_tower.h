// SPDX-License-Identifier: Apache-2.0
// The tower of a vision-language model, of any family that sees: pictures in, the states of chosen layers out.
#pragma once

#include <memory>
#include <vector>

#include "models/family.h"

namespace transom {

// Which states of the tower are the features, by vision_feature_layer and vision_feature_select_strategy.
struct VisionFeatures {
  VisionFeatures() = default;
  explicit VisionFeatures(const Config& config);
  std::vector<int64_t> layers;  // 0 the embeddings, negative ones from the end; several lie side by side
  bool without_class = false;   // the state at the first place, a class token's, is left out
};

class VisionTower {
 public:
  VisionTower(const Config& vision_config, const VisionFeatures& features, const Scope& scope);
  // Of which the last states count, as the tower gives them, with its last norm.
  VisionTower(const Config& vision_config, const Scope& scope);
  // [N, C, H, W] -> [N, P, width()]
  Tensor operator()(const Tensor& pixel_values, ForwardContext& context) const;
  int64_t width() const { return width_; }

 private:
  VisionFeatures features_;
  int64_t width_;
  std::unique_ptr<Model> tower_;
};

}  // namespace transom
