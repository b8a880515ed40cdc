// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "poplar/Engine.hpp"

namespace poplar {

// The machines that are there. The look-alike has what TRANSOM_EMULATED_IPU says: "<generation>[:<IPUs>]", by default
// "bow:4".
class DeviceManager {
 public:
  static DeviceManager createDeviceManager() { return {}; }
  // Devices of so many IPUs.
  std::vector<Device> getDevices(TargetType type, unsigned numIPUs) const;
};

}  // namespace poplar
