// SPDX-License-Identifier: Apache-2.0
// Fields of configurations of models that speak, within bounds.
#pragma once

#include <string>
#include <vector>

#include "files/config/config.h"

namespace transom {

// A whole number from `least` to `most`, which is refused by its name otherwise.
int64_t sized_field(const Config& config, const char* name, int64_t otherwise, int64_t least = 1,
                    int64_t most = 1 << 16);
// The same of a window that stands around a moment: an odd one.
int64_t window_field(const Config& config, const char* name, int64_t otherwise);
// A number from `least` to `most`.
double bounded_field(const Config& config, const char* name, double otherwise, double least, double most);

}  // namespace transom
