// SPDX-License-Identifier: Apache-2.0
// Models of convolutional bodies: a body gives a map of features, the states of its stages, and one vector an image.
// B batch, C channels.
#pragma once

#include <string>
#include <vector>

#include "models/shared/encoder_heads.h"
#include "models/shared/vision_inputs.h"

namespace transom {

struct FeatureMaps {
  Tensor last_hidden_state;           // [B, C, H, W]
  Tensor pooled;                      // [B, C]
  std::vector<Tensor> hidden_states;  // of the stem and of each stage
};

inline NamedTensors with_states(NamedTensors outputs, const FeatureMaps& maps, const ForwardContext& context) {
  if (context.output_hidden_states) add_hidden_states(outputs, maps.hidden_states);
  return outputs;
}

// The bare body. `pooled_is_map`: the pooled vector is given as [B, C, 1, 1].
template <typename Body, bool pooled_is_map>
class ImageFeatureModel : public Model {
 public:
  ImageFeatureModel(const Config& config, const Scope& scope) : body_(config, scope) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const FeatureMaps maps = body_(image_input(inputs, body_.num_channels()), context);
    const Tensor pooled =
        pooled_is_map ? reshape(maps.pooled, {maps.pooled.dim(0), maps.pooled.dim(1), 1, 1}) : maps.pooled;
    return with_states({{"last_hidden_state", maps.last_hidden_state}, {"pooler_output", pooled}}, maps, context);
  }

 private:
  Body body_;
};

}  // namespace transom
