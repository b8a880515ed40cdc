// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace transom {

// set_device() for callers that must not move others to another device: refuses any but the device in use, once there
// is one. Safe from all threads.
void use_device(const std::string& name);

}  // namespace transom
