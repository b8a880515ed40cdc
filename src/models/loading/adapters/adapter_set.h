// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "models/nn/weight_adapter.h"

namespace transom {

// The adapters of a directory of PEFT, for a model that stays as it is: Computing::adapters puts them beside its
// weights.
// Throws for a directory that trains more than tensors beside weights (biases, modules_to_save, norms, virtual tokens),
// and for tensors that do not fit the model. `model` outlives the set.
AdapterSet read_adapter_set(const Model& model, const std::filesystem::path& directory);

}  // namespace transom
