// SPDX-License-Identifier: Apache-2.0
// What the arguments of Optimum Habana, its gaudi_config.json and the variables of Gaudi's software ask of a command.
#pragma once

#include <string>

namespace transom::hpu {

// The answer to a question of `settings` (transom/device_plugin.h), both as JSON. Throws a Failure with one line for
// what contradicts, or is not offered.
std::string settings_of(const std::string& request);

}  // namespace transom::hpu
