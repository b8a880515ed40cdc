// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "transom/model.h"

namespace transom {

// Adds the modules over the vocabulary to the names of those that stay as they are, unless they are there, by their
// names in Transformers, also where their weights are those of the embedding and stand in no file: who opens a
// quantised model has to leave them, too.
void ignore_vocabulary_heads(const Model& model, std::vector<std::string>& ignored);

}  // namespace transom
