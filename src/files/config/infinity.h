// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json/json_fwd.h"

namespace transom {

// Whether a value of a configuration is infinity, which JSON has not: Transformers writes {"__float__": "Infinity"},
// other programs the text "Infinity". (The bare word becomes the first as a file is read.)
bool is_infinity(const Json& value);

}  // namespace transom
