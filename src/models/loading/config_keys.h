// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/config.h"

namespace transom {

// After a model is made of its configuration: what nobody has read of it is known to have no effect here, or refused by
// name and value, or named in one warning.
void check_config_keys(const Config& config);

}  // namespace transom
