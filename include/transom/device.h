// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transom/dtype.h"

namespace transom {

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
// The device that tensors are made on: by name, else TRANSOM_DEVICE, else the best one found. Set it before the first
// tensor is made, for all threads; tensors of different devices cannot be combined. Threads that compute on one device
// take turns.
void set_device(const std::string& name);
std::string device_name();
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
