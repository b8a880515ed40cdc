// SPDX-License-Identifier: Apache-2.0
// An acquired card, and what the other handles of the plugin interface stand for. One lock guards all of a card: calls
// only queue work, so nobody holds it long.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "hpu/device/memory.h"
#include "hpu/device/options.h"

namespace transom::hpu {

class RecipeCache;

// The modules (places on the baseboard) that this process may use: HLS_MODULE_ID, else HABANA_VISIBLE_MODULES, else
// all.
std::vector<synModuleId> visible_modules(const SynapseLibrary& library);

// The first element that 32 bits cannot carry, and its place.
std::optional<std::pair<size_t, int64_t>> first_too_wide(const void* elements, size_t count);
transom_device_properties describe_module(const SynapseLibrary& library, synModuleId module);

}  // namespace transom::hpu

struct transom_device {
  transom_device(std::shared_ptr<const transom::hpu::SynapseLibrary> library, synModuleId module);
  ~transom_device();

  const transom::hpu::SynapseLibrary& library() const { return *library_; }
  synDeviceId id() const { return id_; }
  synDeviceType type() const { return type_; }
  const transom::hpu::Options& options() const { return options_; }
  transom::hpu::RecipeCache& recipes() { return *recipes_; }

  void set_profile(transom_profile_callback callback, void* user) {
    const std::lock_guard lock(mutex);
    profile_ = {callback, user};
  }
  std::pair<transom_profile_callback, void*> profile() const { return profile_; }

  // After the card is lost every call fails at once.
  std::atomic<bool> lost{false};
  std::atomic<uint64_t> handles{0};        // that live now
  std::atomic<uint64_t> host_segments{0};  // run so far
  std::string report();                    // what was counted, as JSON

  // What follows is used under the lock.
  std::mutex mutex;
  std::optional<transom::hpu::Lanes> lanes;
  std::optional<transom::hpu::DeviceMemory> memory;
  std::optional<transom::hpu::Staging> staging;

  std::map<void*, size_t> pinned;  // host memory that the host asked for: copied from and to without a detour

  // The lanes of a copy; bytes > 0. A copy out is finished by finish_copies, once its ticket is done.
  uint64_t copy_in(const void* from, transom::hpu::Block& to, size_t offset, size_t bytes);
  // `owner` waits for it, or forgets it: after a failure `to` may be gone.
  uint64_t copy_out(transom::hpu::Block& from, size_t offset, void* to, size_t bytes, const void* owner);
  uint64_t copy_across(transom::hpu::Block& from, size_t from_offset, transom::hpu::Block& to, size_t to_offset,
                       size_t bytes);
  void finish_copies();
  void wait(const transom::hpu::Tickets& tickets, const void* owner);  // and finishes copies
  void forget_copies(const void* owner);
  bool is_pinned(const void* memory, size_t bytes) const;
  // The one workspace of all recipes, grown to at least so many bytes; they run one after the other.
  transom::hpu::Block& workspace(size_t bytes);

 private:
  struct PendingCopy {
    uint64_t ticket;
    transom::hpu::Staging::Piece* piece;
    void* to;
    size_t bytes;
    const void* owner;
  };

  std::shared_ptr<const transom::hpu::SynapseLibrary> library_;
  transom::hpu::Options options_;
  synDeviceId id_ = 0;
  synDeviceType type_ = 0;
  std::vector<PendingCopy> pending_;
  std::unique_ptr<transom::hpu::Block> workspace_;
  synEventHandle opened_ = nullptr;  // on the compute lane: where the card's own clock is counted from
  std::unique_ptr<transom::hpu::RecipeCache> recipes_;
  double seconds_since_opened();
  std::pair<transom_profile_callback, void*> profile_{nullptr, nullptr};
};

// A handle counts itself.
struct DeviceHandle {
  explicit DeviceHandle(transom_device* d) : device(d) { ++device->handles; }
  ~DeviceHandle() { --device->handles; }
  DeviceHandle(const DeviceHandle&) = delete;
  DeviceHandle& operator=(const DeviceHandle&) = delete;
  transom_device* const device;
};

struct transom_buffer : DeviceHandle {
  using DeviceHandle::DeviceHandle;
  size_t bytes = 0;
  std::unique_ptr<transom::hpu::Block> block;
  // Read as int64, the first element that 32 bits cannot carry. What the host's copies bring is looked at as it comes,
  // since only the launch that takes it says of which type it is.
  std::optional<std::pair<size_t, int64_t>> too_wide;
};

// Work with fixed addresses, in order.
struct transom_capture : DeviceHandle {
  using DeviceHandle::DeviceHandle;
  std::vector<std::function<void(transom_stream&)>> work;
};

struct transom_stream : DeviceHandle {
  using DeviceHandle::DeviceHandle;
  transom::hpu::Tickets issued{};              // its last work in each lane
  std::unique_ptr<transom_capture> recording;  // where work is recorded instead of carried out

  void add(transom::hpu::Lane lane, uint64_t ticket) { issued[static_cast<size_t>(lane)] = ticket; }
};

struct transom_event : DeviceHandle {
  using DeviceHandle::DeviceHandle;
  ~transom_event() {
    if (time) device->library().synEventDestroy(time);
  }
  transom::hpu::Tickets after{};
  synEventHandle time = nullptr;  // on the compute lane
};
