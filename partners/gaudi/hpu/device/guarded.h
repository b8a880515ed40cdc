// SPDX-License-Identifier: Apache-2.0
// What every function of the plugin's table stands in.
#pragma once

#include <concepts>

#include "hpu/device/device.h"

namespace transom::hpu {

// A base of what fill_table takes: after the card is lost none of the calls that have a handle of it is tried.
struct Guard {
  template <typename Work, typename Handle, typename... Rest>
  requires std::same_as<Handle, transom_device> || requires(Handle* h) { h->device->lost; }
  static transom_status guard(transom_error* error, Work&& work, Handle* handle, Rest&&...) noexcept {
    transom_device* device;
    if constexpr (std::same_as<Handle, transom_device>) device = handle;
    else device = handle->device;
    const transom_status status = plugin::guarded(error, [&] {
      if (device->lost) fail(TRANSOM_DEVICE_LOST, "the device does not answer any more; start the program again");
      work();
    });
    if (status == TRANSOM_DEVICE_LOST) device->lost = true;
    return status;
  }
};

}  // namespace transom::hpu
