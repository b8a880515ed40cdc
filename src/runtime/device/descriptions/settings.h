// SPDX-License-Identifier: Apache-2.0
// Asking a plugin what the arguments and variables that its users know mean (`settings` of device_plugin.h).
#pragma once

#include <string>

#include "base/json/json_fwd.h"

namespace transom {

// The answer of the plugin of this device to an object with `question`; an empty object where nothing has to be asked:
// there is no description, no plugin, or none of the variables that it answers for is set and `asks_anyway` is false.
// Throws an Error of kind kUsage with the plugin's own text where it refuses.
Json ask_settings(const std::string& device, const Json& request, bool asks_anyway = false);

// What a command takes where the user said nothing, of the device in use.
struct DeviceDefaults {
  std::string mode;  // of graphs: "eager"; empty: the usual one
  bool gradient_checkpointing = false;
};
DeviceDefaults device_defaults();

}  // namespace transom
