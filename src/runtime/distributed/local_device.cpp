// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "runtime/distributed/environment.h"
#include "transom/device.h"
#include "transom/distributed.h"

namespace transom {

std::string device_of_process(const std::string& device) {
  const Launch launch = launch_of_environment();
  std::string name = device.empty() ? first_text({"TRANSOM_DEVICE"}) : device;
  if (launch.ranks == 1 || name.find(':') != name.npos) return device;
  int64_t count = 0;
  for (const DeviceInfo& info : list_devices()) {
    if (!info.reason.empty() || (name.empty() && info.priority == 0)) continue;
    const std::string kind = info.name.substr(0, info.name.find(':'));
    if (name.empty()) name = kind;  // the best
    count += kind == name;
  }
  if (count <= 1) return device;
  if (launch.local_rank >= count)
    fail(ErrorKind::kUsage, "process {} of this server has no device: there are {} of {}", launch.local_rank, count,
         name);
  return name + ":" + std::to_string(launch.local_rank);
}

}  // namespace transom
