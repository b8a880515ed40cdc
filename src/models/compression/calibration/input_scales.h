// SPDX-License-Identifier: Apache-2.0
// Scales of a layer's inputs, which its weight is multiplied and what makes the inputs divided by: important columns
// then fall on a finer grid. AWQ (Lin et al., "AWQ: activation-aware weight quantization", 2023) and SmoothQuant (Xiao
// et al., 2022).
#pragma once

#include <string>
#include <vector>

#include "models/compression/calibration/calibration.h"

namespace transom {

// Layers that read the same inputs, and what makes these: a norm, or a linear layer whose outputs they are.
struct ScaledInputs {
  std::vector<std::string> layers;  // modules: model.layers.0.self_attn.q_proj ...
  std::string maker;
  bool maker_is_linear = false;
};
// As the record of the family has them; a family without such is an error that names the model type.
std::vector<ScaledInputs> scaled_inputs(const Model& model);

// magnitude^a / share^b for each input, where share is the mean magnitude of the weight's column by the largest of its
// group: of a = 0, 0.05 ... 0.95 and b = 0 (as the paper has it) or 1 - a (as AutoAWQ does) those that leave the least
// error of the outputs of some rows of the weights, w [rows, depth] each.
std::vector<float> awq_scales(const LayerInputs& inputs, const std::vector<const std::vector<float>*>& weights,
                              int64_t group);
// sqrt(largest input / largest weight) for each input.
std::vector<float> smooth_scales(const LayerInputs& inputs, const std::vector<const std::vector<float>*>& weights);

}  // namespace transom
