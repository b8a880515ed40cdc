// SPDX-License-Identifier: Apache-2.0
// What every function of the plugin's table stands in: no exception may cross the interface.
#pragma once

#include "hpu/device/device.h"

namespace transom::hpu {

using plugin::guarded;

// For a device's call: after the card is lost none of them is tried.
template <typename Body>
transom_status guarded(transom_device* device, transom_error* error, Body&& body) noexcept {
  const transom_status status = guarded(error, [&] {
    if (device->lost) fail(TRANSOM_DEVICE_LOST, "the device does not answer any more; start the program again");
    body();
  });
  if (status == TRANSOM_DEVICE_LOST) device->lost = true;
  return status;
}

}  // namespace transom::hpu
