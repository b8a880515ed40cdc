// SPDX-License-Identifier: Apache-2.0
// What every function of the plugin's table stands in: no exception may cross the interface.
#pragma once

#include <cstdio>
#include <new>

#include "hpu/device.h"

namespace transom::hpu {

inline transom_status report(transom_error* error, transom_status status, const char* text) {
  std::snprintf(error->text, sizeof error->text, "%s", text);
  return status;
}

template <typename Body>
transom_status guarded(transom_error* error, Body&& body) noexcept {
  try {
    body();
    return TRANSOM_OK;
  } catch (const Failure& failure) {
    return report(error, failure.status(), failure.what());
  } catch (const std::bad_alloc&) {
    return report(error, TRANSOM_OUT_OF_MEMORY, "the host's memory is exhausted");
  } catch (const std::exception& exception) {
    return report(error, TRANSOM_INTERNAL, exception.what());
  } catch (...) {
    return report(error, TRANSOM_INTERNAL, "an exception of unknown type");
  }
}

// The same for a device's call: after the card is lost none of them is tried.
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
