// SPDX-License-Identifier: Apache-2.0
// AutoAWQ lets some families divide the outputs of an activation, whose next layer it has multiplied: X.act.scales.
// Readers expect these numbers in every AWQ checkpoint of such a family.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "files/checkpoint/checkpoint.h"

namespace transom {

// The name of the scales behind the layer `module` of a model type; empty where there are none.
std::string awq_activation_scales(const std::string& model_type, const std::string& module);

// Takes the scales of activations out of a checkpoint: what divides the inputs of the layers behind them, by the module
// that holds both, but for ones.
std::map<std::string, std::vector<float>> take_awq_divisors(Checkpoint& checkpoint);
// The same of one layer, taken out of these; empty where nothing divides its inputs.
std::vector<float> take_divisors_of(const std::string& layer, std::map<std::string, std::vector<float>>& divisors);

}  // namespace transom
