// SPDX-License-Identifier: Apache-2.0
// Arguments of former versions, of scripts and of Accelerate that stand for a value of another argument.
#pragma once

#include <string>
#include <vector>

#include "base/json/json_fwd.h"

namespace transom {

// With today's names: of a file of arguments, and of flags, where the value of a switch may stand beside it.
Json modernised(const Json& object);
std::vector<std::string> modernised(const std::vector<std::string>& flags);

}  // namespace transom
