// SPDX-License-Identifier: Apache-2.0
// EVA (Paischer et al., "One initialization to rule them all", 2024): the matrices A of LoRA begin as the principal
// components of what their layers read, and layers whose components explain more get more of them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "models/loading/adapters/adapter_config.h"
#include "transom/model.h"

namespace transom {

struct ReadBatch {
  NamedTensors inputs;        // of the model
  std::vector<bool> counted;  // of the tokens [rows, length], whose numbers count; empty: all
};

// Whether a configuration of new adapters asks for it.
bool begins_by_activations(const AdapterConfig& config);

// Gives the model new adapters that begin so: batches 0 to `batches` - 1 are read in turn until the components stay.
// Ranks, scales and the modules that are left stand in the configuration.
void add_by_activations(Model& model, AdapterConfig config, uint64_t seed, int64_t batches,
                        const std::function<ReadBatch(int64_t)>& batch);

}  // namespace transom
