// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "transom/model.h"

namespace transom {

// The modules over the vocabulary by their names in Transformers, also where their weights are those of the embedding
// and stand in no file: who opens a quantised model has to leave them as they are.
std::vector<std::string> vocabulary_heads(const Model& model);

}  // namespace transom
