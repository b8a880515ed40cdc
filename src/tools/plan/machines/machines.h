// SPDX-License-Identifier: Apache-2.0
// Machines as the command line names them: "gaudi2:8x16" are 16 hosts of 8 devices, "h100:8" 8 devices, "gaudi2" one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace transom {

struct Machine {
  std::string hardware;
  double devices = 1, hosts = 0;  // 0: as many as the devices need
};

// A list with commas. Errors of kind kUsage that name `flag`.
std::vector<Machine> parse_machines(std::string_view text, std::string_view flag);
// "8", or "1..4096": 1, 2, 4 ... and the last.
std::vector<double> parse_device_counts(std::string_view text, std::string_view flag);

}  // namespace transom
