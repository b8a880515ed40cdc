// SPDX-License-Identifier: Apache-2.0
// A device file of the machine that this process runs on, from measurements of a few seconds.
#pragma once

#include <string>

namespace transom {

// The text of a device file: products in each type and memory as measured with the device in use (its rates are then
// whole shares of what was measured), launches by a chain of small ones, memory as the system tells. Of links, power
// and prices nothing is known.
std::string measured_device_file(const std::string& name);

}  // namespace transom
