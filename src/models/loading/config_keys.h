// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/json/json_fwd.h"
#include "transom/config.h"

namespace transom {

// After a model is made of its configuration: what nobody has read of it is known to have no effect here, or refused by
// name and value, or named in one warning.
void check_config_keys(const Config& config);

// Whether a key with this value has no effect on any decoder that does not read it.
bool is_known_everywhere(const std::string& key, const Json& value);

}  // namespace transom
