// SPDX-License-Identifier: Apache-2.0
// Heads and tables of tokens that share one weight, beside adapters: PEFT trains and saves a copy of each module to
// save, and the other stays as the base model has it.
#pragma once

#include <string>

#include "models/loading/adapters/adapter_config.h"
#include "transom/model.h"

namespace transom {

// Whether the head of a language model has the table's weight, and the configuration saves one of the two, or puts
// matrices beside one of them.
bool parts_shared_weight(const Model& model, const AdapterConfig& config);

// The base model of the adapters, the head with a weight of its own where PEFT gives it one. Refuses models whose head
// cannot have one.
std::unique_ptr<Model> load_base(const std::string& directory, const AdapterConfig& config, const LoadOptions& options,
                                 LoadReport* report);

}  // namespace transom
