// SPDX-License-Identifier: Apache-2.0
// Host data as the named tensors of a model.
#pragma once

#include <filesystem>
#include <span>

#include "inputs/data/text/padding.h"
#include "transom/model.h"
#include "work/train/step/text_places.h"

namespace transom {

// All tensors of a safetensors file by name; whole-number types narrower than i64 are widened, as models take i64.
NamedTensors load_inputs(const std::filesystem::path& path);

// A padded batch. Throws where an integer label is no class of the model and not -100, and where an id is no row of its
// table, which devices do not tell.
NamedTensors to_inputs(const Batch& batch, const Model& model, BatchPadding padding = BatchPadding::kStays);
// The same check for labels of a model.
void check_labels(const Model& model, std::span<const int64_t> labels);

}  // namespace transom
