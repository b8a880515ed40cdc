// SPDX-License-Identifier: Apache-2.0
// The weights of a model that a configuration of adapters is for.
#pragma once

#include <string>
#include <vector>

#include "models/loading/adapters/adapter_making.h"

namespace transom {

// The name of a parameter without its last word.
std::string module_of(const std::string& parameter);
// Whether the module is the layer that gives words or classes.
bool is_last_layer(const Model& model, const std::string& module);
// Refuses modules that are named and that the kind cannot change, and configurations that find none.
std::vector<AdaptedWeight> adapted_weights(const AdapterConfig& config, const Model& model);

}  // namespace transom
