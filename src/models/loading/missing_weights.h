// SPDX-License-Identifier: Apache-2.0
// What is said of weights that a checkpoint lacks, and whether a model that has them new can be asked.
#pragma once

#include <memory>
#include <string>

#include "transom/model.h"

namespace transom {

// One line about tensors that the checkpoint lacks, with a name in it that is near, perhaps misspelt.
void warn_of_missing(const LoadReport& report, const std::string& where);
// The model of a checkpoint to compute answers with. Where weights that the answers depend on are missing from it, they
// would be random, as would the answers: this is refused. Training makes them.
std::unique_ptr<Model> load_trained(const std::string& name_or_path, const LoadOptions& options);

}  // namespace transom
