// SPDX-License-Identifier: Apache-2.0
// How files name the precision of a model.
#pragma once

#include <string>

#include "transom/precision.h"

namespace transom {

// As configurations of Transformers name it.
std::string name_of_precision(DType dtype);

}  // namespace transom
