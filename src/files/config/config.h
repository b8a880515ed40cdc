// SPDX-License-Identifier: Apache-2.0
// The JSON of a Config, which the public header does not show.
#pragma once

#include <string>
#include <string_view>

#include "base/json/json_fwd.h"
#include "transom/config.h"

namespace transom {

Config make_config(Json json, std::string where);
const Json& json_of(const Config& config);
void set_field(Config& config, std::string_view key, Json value);

}  // namespace transom
