// SPDX-License-Identifier: Apache-2.0
// Host data as the named tensors of a model.
#pragma once

#include <filesystem>

#include "data/padding.h"
#include "transom/model.h"

namespace transom {

// All tensors of a safetensors file by name; whole-number types narrower than i64 are widened, as models take i64.
NamedTensors load_inputs(const std::filesystem::path& path);

// A padded batch.
NamedTensors to_inputs(const Batch& batch);

}  // namespace transom
