// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/machines/machines.h"

#include <cmath>

#include "base/error.h"
#include "base/text/numbers.h"

namespace transom {
namespace {

constexpr double kMostDevices = 1 << 20;

double devices_of(std::string_view text, std::string_view flag) {
  const auto number = parse_double(text);
  if (!number || !(*number >= 1) || *number > kMostDevices || *number != std::floor(*number))
    fail(ErrorKind::kUsage, "{}: expected a whole number of devices from 1 to {}, found {}", flag, kMostDevices,
         quoted(text));
  return *number;
}

}  // namespace

std::vector<Machine> parse_machines(std::string_view text, std::string_view flag) {
  std::vector<Machine> result;
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view one = text.substr(0, comma);
    const size_t colon = one.find(':');
    Machine machine{std::string(one.substr(0, colon))};
    if (machine.hardware.empty())
      fail(ErrorKind::kUsage, "{}: expected NAME[:devices[xhosts]], found {}", flag, quoted(one));
    if (colon != one.npos) {
      const std::string_view counts = one.substr(colon + 1);
      const size_t times = counts.find('x');
      machine.devices = devices_of(counts.substr(0, times), flag);
      if (times != counts.npos) {
        machine.hosts = devices_of(counts.substr(times + 1), flag);
        machine.devices *= machine.hosts;
        if (machine.devices > kMostDevices)
          fail(ErrorKind::kUsage, "{}: expected at most {} devices, found {}", flag, kMostDevices, machine.devices);
      }
    }
    result.push_back(machine);
    if (comma == text.size()) return result;
    text.remove_prefix(comma + 1);
  }
}

std::vector<double> parse_device_counts(std::string_view text, std::string_view flag) {
  const size_t dots = text.find("..");
  if (dots == text.npos) return {devices_of(text, flag)};
  const double first = devices_of(text.substr(0, dots), flag), last = devices_of(text.substr(dots + 2), flag);
  if (last < first) fail(ErrorKind::kUsage, "{}: expected a range that goes up, found {}", flag, quoted(text));
  std::vector<double> result;
  for (double n = first; n < last; n *= 2) result.push_back(n);
  result.push_back(last);
  return result;
}

}  // namespace transom
