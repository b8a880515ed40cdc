// SPDX-License-Identifier: Apache-2.0
// libOpenCL.so.1 and the devices that it knows.
#pragma once

#include <string>
#include <vector>

#include "gpu/api/api.h"
#include "gpu/api/opencl_interface.h"

namespace transom::gpu::cl {

// The functions of libOpenCL.so.1, which is opened at the first call.
#define X(result, name, parameters) result(*name) parameters = nullptr;
struct Functions {
  TRANSOM_OPENCL_FUNCTIONS(X)
};
#undef X
const Functions& functions();

// Throws a Failure with what failed: TRANSOM_OUT_OF_MEMORY, TRANSOM_UNAVAILABLE or TRANSOM_INTERNAL.
[[noreturn]] void refuse(Int status, const char* what);
inline void check(Int status, const char* what) {
  if (status != kSuccess) refuse(status, what);
}

// What a device says of itself; `otherwise` where it does not.
template <typename T>
T info(Device device, DeviceInfo key, T otherwise = {}) {
  T value{};
  return functions().GetDeviceInfo(device, key, sizeof value, &value, nullptr) == kSuccess ? value : otherwise;
}

struct Found {
  Device device;
  std::string platform;
};

// Devices that can run the backend, GPUs before others. `left_out` says why the others cannot.
std::vector<Found> find_devices(std::string& left_out);
Facts facts_of(const Found& found);
// Whether its buffers are plain addresses, as the environment allows.
bool shares_memory(Device device);

}  // namespace transom::gpu::cl
