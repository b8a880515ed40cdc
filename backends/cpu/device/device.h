// SPDX-License-Identifier: Apache-2.0
// The one device of this plugin: the processor of this machine. What other headers of the plugin do not need to know is
// in the structs that the C interface only names.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cpu/collectives/completion.h"
#include "cpu/device/error.h"
#include "cpu/device/memory.h"
#include "transom/device_plugin.h"

namespace transom::cpu {

// Returns when a collective is done, if there is one; throws what went wrong with it.
inline void wait_for(const std::shared_ptr<Completion>& pending) {
  if (!pending) return;
  if (const std::string failure = pending->wait(); !failure.empty()) fail(TRANSOM_DEVICE_LOST, "{}", failure);
}

}  // namespace transom::cpu

struct transom_device {
  transom::cpu::Allocator allocator;

  void set_profile(transom_profile_callback callback, void* user) {
    std::lock_guard lock(mutex_);
    profile_ = {callback, user};
  }
  std::pair<transom_profile_callback, void*> profile() {
    std::lock_guard lock(mutex_);
    return profile_;
  }

 private:
  std::mutex mutex_;
  std::pair<transom_profile_callback, void*> profile_{nullptr, nullptr};
};

// Work with fixed addresses, in order.
struct transom_capture : transom::cpu::Handle {
  std::vector<std::function<void()>> work;
};

// All work but collectives is done inside the calls, so a stream is only the memory that its kernels use in between.
struct transom_stream : transom::cpu::Handle {
  explicit transom_stream(transom_device* device) : allocator_(device->allocator) {}
  ~transom_stream() {
    if (scratch_) allocator_.free(scratch_, bytes_);
  }
  // The last collective of this stream: what comes next on it waits.
  std::shared_ptr<transom::cpu::Completion> pending;
  void wait() { transom::cpu::wait_for(pending); }

  // Where launches and copies are recorded instead of carried out; null outside of a capture.
  std::unique_ptr<transom_capture> recording;

  std::byte* scratch(size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)  // a sanitizer should see where it ends
    const bool fits = bytes == bytes_;
#else
    const bool fits = bytes <= bytes_;
#endif
    if (!fits) {
      if (scratch_) allocator_.free(std::exchange(scratch_, nullptr), std::exchange(bytes_, 0));
      scratch_ = allocator_.allocate(bytes);
      bytes_ = bytes;
    }
    return scratch_;
  }

 private:
  transom::cpu::Allocator& allocator_;
  std::byte* scratch_ = nullptr;
  size_t bytes_ = 0;
};

struct transom_event : transom::cpu::Handle {
  uint64_t nanoseconds = 0;
  std::shared_ptr<transom::cpu::Completion> pending;
};

namespace transom::cpu {

transom_device_properties describe_processor();

// Whether the device runs a composite for these input types and attributes itself.
bool claims_composite(const char* op, const transom_value* inputs, size_t inputs_count,
                      const transom_attribute* attributes, size_t attributes_count);

}  // namespace transom::cpu
