// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "transom/model.h"

namespace transom {

// The names of the inputs that Model::forward() takes.
std::vector<std::string> input_names_of(const Model& model);

}  // namespace transom
