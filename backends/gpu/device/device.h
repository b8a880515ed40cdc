// SPDX-License-Identifier: Apache-2.0
// What the handles of the plugin interface stand for.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpu/api/api.h"
#include "gpu/api/attentions.h"
#include "gpu/api/convolutions.h"
#include "gpu/api/products.h"
#include "gpu/device/kernel_store.h"
#include "gpu/device/memory.h"
#include "transom/device_plugin.h"
#include "transom/plugin/handle.h"

using transom::backend::Handle;

namespace transom::gpu {
void warn(const std::string& text);  // to the host's log; in plugin.cpp
}  // namespace transom::gpu

struct transom_device {
  explicit transom_device(std::unique_ptr<transom::gpu::Context> opened)
      : context(std::move(opened)),
        kernels(*context),
        memory(*context),
        products(transom::gpu::open_products(*context)),
        convolutions(transom::gpu::open_convolutions(*context)),
        attentions(transom::gpu::open_attentions(*context, transom::gpu::warn)),
        nothing(context->allocate(256)) {}
  ~transom_device() { context->release(nothing); }
  transom_device(const transom_device&) = delete;
  transom_device& operator=(const transom_device&) = delete;

  // Throws if the device was lost; every function of the table begins with it.
  void expect_alive();
  void lost(std::string why);

  // `check` is called where the host waits for the device, and throws where work that was queued can have failed
  // unseen, because of another rank. `key` is whose check it is.
  void watch(const void* key, std::function<void()> check);
  void forget(const void* key);
  void check_watched();

  struct Profile {
    transom_profile_callback callback = nullptr;
    void* user = nullptr;
  };
  Profile profile();
  void set_profile(Profile next);

  std::unique_ptr<transom::gpu::Context> context;
  transom::gpu::KernelStore kernels;
  transom::gpu::Memory memory;
  std::unique_ptr<transom::gpu::Products> products;          // null: none
  std::unique_ptr<transom::gpu::Convolutions> convolutions;  // likewise
  std::unique_ptr<transom::gpu::Attentions> attentions;      // likewise
  void* nothing;                                             // the address of values without elements
  std::string report;
  std::atomic<uint64_t> launches = 0;  // of this process, for reports

 private:
  std::mutex mutex_;  // guards those below
  std::map<const void*, std::function<void()>> watched_;
  Profile profile_;
  std::optional<std::string> lost_;
};

// The work of a function of the table, on a device that is not lost; one that is lost by it stays lost. `device` is
// null where the function has none.
template <typename Work>
transom_status guarded_on(transom_device* device, transom_error* error, Work&& work) noexcept {
  return transom::plugin::guarded(error, [&] {
    if (device) device->expect_alive();
    try {
      work();
    } catch (const transom::backend::Failure& failure) {
      if (device && failure.status() == TRANSOM_DEVICE_LOST) device->lost(failure.what());
      throw;
    }
  });
}

struct transom_buffer : Handle {
  transom_device* device;
  std::byte* data = nullptr;
  size_t bytes = 0;
  transom_buffer(transom_device* device, size_t bytes) : device(device), bytes(bytes) {
    if (bytes) data = static_cast<std::byte*>(device->memory.allocate(bytes));
  }
  ~transom_buffer() {
    if (data) device->memory.release(data);
  }
  // Where `size` bytes behind the offset lie; refuses what is outside.
  static std::byte* at(const transom_binding& binding, size_t size);
};

struct transom_stream : Handle {
  transom_device* device;
  transom::gpu::MarkedQueue marked;
  explicit transom_stream(transom_device* device);
  ~transom_stream();

  transom::gpu::Queue& queue() { return *marked.queue; }
  void issued() { device->memory.issued(marked); }
  void synchronize();
  // At least `bytes` that the launches of one executable at a time use. What was given before stays valid for the work
  // that is queued, and, since recorded launches have it too, what was given while recording until the stream goes.
  std::byte* scratch(size_t bytes);

 private:
  std::vector<std::byte*> recorded_;  // that recorded launches use
  bool in_recording_ = false;         // scratch_ is used by some
  std::byte* scratch_ = nullptr;
  size_t scratch_bytes_ = 0;
};

struct transom_event : Handle {
  transom_device* device;
  std::unique_ptr<transom::gpu::Event> event;
  explicit transom_event(transom_device* device) : device(device), event(device->context->make_event()) {}
};

struct transom_capture : Handle {
  explicit transom_capture(transom_device* device) : device(device) {}
  transom_device* device;
  std::unique_ptr<transom::gpu::Graph> graph;
};
