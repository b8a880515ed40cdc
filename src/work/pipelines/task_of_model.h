// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace transom {

// The task that a directory's model is for where nobody names one: that of its adapters, else of the architecture in
// config.json; a directory with modules.json gives embeddings.
std::string task_of_model(const std::string& directory);

}  // namespace transom
