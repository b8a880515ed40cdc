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
// Calls a function without "cl", with its status checked; of those that make something, which give their status behind
// the arguments.
#define CL(name, ...) cl::check(cl::functions().name(__VA_ARGS__), "cl" #name)
#define CL_MADE(name, ...) cl::made("cl" #name, cl::functions().name, __VA_ARGS__)
template <typename Function, typename... Arguments>
auto made(const char* what, Function function, Arguments... arguments) {
  Int status = kSuccess;
  const auto one = function(arguments..., &status);
  check(status, what);
  return one;
}
// The text that `ask(size, place, size*)` writes; empty where it gives none.
template <typename Ask>
std::string text_of(Ask&& ask) {
  size_t size = 0;
  if (ask(size_t{0}, nullptr, &size) != kSuccess || size == 0 || size > (1u << 24)) return "";
  std::string text(size, '\0');
  if (ask(size, text.data(), nullptr) != kSuccess) return "";
  return text.c_str();  // to its zero
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
