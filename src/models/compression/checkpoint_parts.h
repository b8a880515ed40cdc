// SPDX-License-Identifier: Apache-2.0
// What checkpoints of compressed models have in common, whichever way their codes are found.
#pragma once

#include <filesystem>

#include "base/json/json_fwd.h"
#include "files/checkpoint/checkpoint.h"
#include "transom/model.h"

namespace transom {

// A tensor's numbers, which the view keeps.
TensorView bytes_of_tensor(const Tensor& value);

// config.json of the model with this quantization_config, and generation_config.json of one that writes, in `output`.
void write_configurations(const Model& model, const Json& quantization_config, const std::filesystem::path& output);

}  // namespace transom
