// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "files/checkpoint/tensor_view.h"
#include "transom/model.h"

namespace transom {

// The parameters and buffers by their names, in the type that the weights have (packed ones dequantised), as
// save_pretrained writes them. Adapters are not among them.
NamedViews stored_weights(const Model& model);

// Writes config.json, and generation_config.json of a model that generates, as save_pretrained does beside the weights.
// The directory is there.
void save_configuration(const Model& model, const std::string& directory);

}  // namespace transom
