// SPDX-License-Identifier: Apache-2.0
// What the handles of the plugin interface stand for. Buffers are memory of the host, from which programs stream: tile
// memory belongs to the program that is loaded.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <poplar/Engine.hpp>
#include <string>
#include <vector>

#include "transom/device_plugin.h"
#include "transom/plugin/handle.h"

using transom::backend::Handle;

struct transom_device {
  explicit transom_device(poplar::Device machine);

  const poplar::Device machine;
  const uint64_t memory_limit;  // of buffers: streaming memory
  std::atomic<uint64_t> in_use{0}, peak{0}, allocations{0};
  std::atomic<uint64_t> cycles{0}, programs{0}, runs{0};     // by the clock of the tiles
  std::atomic<uint64_t> fullest_tile{0};                     // bytes, of all programs
  std::atomic<uint64_t> fetched{0};                          // bytes of inputs that came over streams
  std::atomic<uint64_t> loaded_remote{0}, stored_remote{0};  // bytes from and to streaming memory, by programs
  std::atomic<uint64_t> collectives{0};                      // programs that replicas ran together
  std::atomic<uint64_t> kept_programs{0};                    // that were found compiled
  std::atomic<uint64_t> block_products{0};                   // weights of programs that are there as their blocks

  struct Profile {
    transom_profile_callback callback = nullptr;
    void* user = nullptr;
  };
  Profile profile();
  void set_profile(Profile next);

  // Whether the machine runs a node, by the text of its graph: the layers of a model have the same nodes.
  std::map<std::string, bool> supported;
  std::mutex supported_mutex;

  // Engines use the machine one at a time: what the tiles hold is that of the last one.
  std::mutex running;
  transom_executable* loaded = nullptr;  // guarded by `running`
  uint32_t rounded_runs = 0;             // of programs that round stochastically; guarded by `running`

 private:
  std::mutex mutex_;
  Profile profile_;
};

struct transom_buffer : Handle {
  transom_buffer(transom_device* device, size_t bytes);
  ~transom_buffer();
  // Where `size` bytes behind the offset lie; refuses what is outside.
  static std::byte* at(const transom_binding& binding, size_t size);

  transom_device* const device;
  const size_t bytes;
  std::byte* data = nullptr;

  // What the buffer holds, as a number that no other contents ever have. Renewed before and after somebody writes.
  uint64_t stamp() const { return stamp_; }
  void renew() { stamp_ = ++stamps; }

 private:
  static inline std::atomic<uint64_t> stamps{0};
  std::atomic<uint64_t> stamp_{++stamps};
};

struct transom_capture : Handle {
  std::vector<std::function<void()>> work;
};

struct transom_stream : Handle {
  explicit transom_stream(transom_device* device) : device(device) {}
  transom_device* device;
  std::unique_ptr<transom_capture> recording;

  // Does the work, or records it.
  void issue(std::function<void()> work) {
    if (recording) recording->work.push_back(std::move(work));
    else work();
  }
};

struct transom_event : Handle {
  explicit transom_event(transom_device* device) : device(device) {}
  transom_device* device;
  double seconds = 0;  // of the device's clock
};
