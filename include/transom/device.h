// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transom/dtype.h"

namespace transom {

class Device;

// A device that was found, or a plugin without a device and the reason.
struct DeviceInfo {
  std::string name;          // what --device takes: "cpu", "cuda:1"
  std::string description;   // "AMD EPYC 9354"; empty if there is none
  std::string architecture;  // "avx512_bf16, vnni"
  std::string driver;
  std::string plugin;  // path of the plugin's library
  std::string reason;  // why it cannot be used; empty if it can
  uint64_t memory_bytes = 0;
  uint32_t compute_units = 0;
  uint32_t priority = 0;
  bool emulated = false;
  bool computes_nothing = false;
  std::vector<DType> fast_dtypes;
};

// The devices of all plugins in the library directory and in TRANSOM_PLUGIN_PATH; best first.
std::vector<DeviceInfo> list_devices();

// All functions here are safe from all threads.
//
// The device of the process, on which tensors are made: by name, else TRANSOM_DEVICE, else the best one found. Set it
// before the first tensor is made, for all threads. Threads that compute on one device take turns.
//
// A computation runs where its tensors are; tensors of different devices are combined after Tensor::to.
void set_device(const std::string& name);
// The device in use on this thread: that of its innermost DeviceScope, else that of the process.
std::string device_name();

// While an instance exists, this thread makes its tensors on another device of the process, and loads models there.
// A model makes tensors while it computes: call it under a scope of the device that it was loaded on. Scopes end in the
// order opposite to that in which they began.
class DeviceScope {
 public:
  explicit DeviceScope(const std::string& name);  // as for set_device; opens the device, or throws
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  std::shared_ptr<Device> device_, before_;
};

// The best device found whose name is not this one (or this one with a number).
std::string best_device_but(const std::string& name);

// What the device in use counted since it was opened, as one JSON object whose names are the device's own
// ("recompilations", "device_seconds" ...); "{}" of a device that tells nothing.
std::string device_report();

// Memory of the device in use, in bytes.
struct MemoryUse {
  uint64_t in_use = 0, peak = 0, limit = 0;
};
MemoryUse memory_use();

}  // namespace transom
