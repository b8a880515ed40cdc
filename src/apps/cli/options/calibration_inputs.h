// SPDX-License-Identifier: Apache-2.0
// What a model is shown to find scales: tensors, pictures or texts.
#pragma once

#include <vector>

#include "base/files/files.h"
#include "transom/model.h"

namespace transom {

// Batches of a model's inputs from a .safetensors file (tensors by name, rows along the first axis), a picture, a
// directory of pictures, or a file of texts, one a line. `model`: the directory with its processor or tokenizer.
std::vector<NamedTensors> calibration_inputs(const fs::path& file, const fs::path& model);

}  // namespace transom
