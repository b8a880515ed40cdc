// SPDX-License-Identifier: Apache-2.0
// What the handles of the plugin interface stand for on this device.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>

#include "transom/device_plugin.h"
#include "transom/plugin/handle.h"

using transom::backend::Handle;

struct transom_device {
  std::atomic<uint64_t> bytes_in_use{0}, peak_bytes_in_use{0}, allocations{0};
  std::mutex mutex;  // guards the two below
  transom_profile_callback profile = nullptr;
  void* profile_user = nullptr;
};

struct transom_buffer : Handle {
  transom_buffer(transom_device* device, size_t bytes) : device(device), bytes(bytes) {}
  transom_device* device;
  std::byte* data = nullptr;
  size_t bytes;
  bool imported = false;  // the memory is the host's, and is only read
};

// All work is done inside the calls, so a stream has no state.
struct transom_stream : Handle {
  explicit transom_stream(transom_device* device) : device(device) {}
  transom_device* device;
};

struct transom_event : Handle {
  std::chrono::steady_clock::time_point time;
};
