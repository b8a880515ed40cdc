// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "transom/model.h"

namespace transom {

// Writes config.json, and generation_config.json of a model that generates, as save_pretrained does beside the weights.
// The directory is there.
void save_configuration(const Model& model, const std::string& directory);

}  // namespace transom
