// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/upload_staging.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/error.h"

namespace transom {
namespace {

constexpr size_t kSmallest = 4 << 10, kLargest = 16 << 20;  // bytes of one upload's pinned memory
constexpr size_t kMost = 64 << 20;                          // bytes of all of it

// The pinned memory of one device: blocks that are used again once the device has read them.
class Staging {
 public:
  explicit Staging(const Device& device) : device_(device) {
    transom_error error{};
    device.expect_ok(table().stream_create(device.handle(), &stream_, &error), error);
  }
  ~Staging() {
    transom_error ignored{};
    if (stream_) table().stream_synchronize(stream_, &ignored);
    for (const auto& block : blocks_) {
      table().event_destroy(block->read);
      table().host_free(device_.handle(), block->memory);
    }
    if (stream_) table().stream_destroy(stream_);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void upload(std::span<const std::byte> from, const Buffer& to) {
    const auto turn = device_.take_turn();  // of the device's stream, and of the blocks
    Block& block = free_block(from.size());
    std::memcpy(block.memory, from.data(), from.size());
    transom_error error{};
    const auto expect = [&](transom_status status) { device_.expect_ok(status, error); };
    expect(table().copy_to_device(stream_, block.memory, {to.handle(), 0}, from.size(), &error));
    block.is_read = false;
    expect(table().event_record(block.read, stream_, &error));
    expect(table().event_wait(block.read, device_.stream(), &error));
  }

 private:
  struct Block {
    void* memory = nullptr;
    size_t bytes = 0;
    transom_event* read = nullptr;  // when the device has passed the last copy from it
    bool is_read = true;
  };
  const transom_plugin& table() const { return device_.table(); }

  bool is_free(Block& block) const {
    if (block.is_read) return true;
    int32_t done = 0;
    transom_error error{};
    device_.expect_ok(table().event_query(block.read, &done, &error), error);
    return block.is_read = done != 0;
  }

  // Blocks stand in the order of their last use.
  Block& free_block(size_t bytes) {
    const auto last = [&](auto found) -> Block& {
      std::rotate(found, found + 1, blocks_.end());
      return *blocks_.back();
    };
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block)
      if ((*block)->bytes >= bytes && (*block)->bytes / 8 <= std::max(bytes, kSmallest) && is_free(**block))
        return last(block);
    size_t size = kSmallest;
    while (size < bytes) size *= 2;
    // Memory for another size is freed, and the device waited for, only where there is too much of it.
    while (!blocks_.empty() && held_ + size > kMost) {
      Block& oldest = *blocks_.front();
      transom_error error{};
      if (!oldest.is_read) device_.expect_ok(table().event_synchronize(oldest.read, &error), error);
      oldest.is_read = true;
      if (oldest.bytes == size) return last(blocks_.begin());
      held_ -= oldest.bytes;
      table().event_destroy(oldest.read);
      table().host_free(device_.handle(), oldest.memory);
      blocks_.erase(blocks_.begin());
    }
    auto block = std::make_unique<Block>();
    transom_error error{};
    device_.expect_ok(table().host_allocate(device_.handle(), size, &block->memory, &error), error);
    if (const transom_status status = table().event_create(device_.handle(), &block->read, &error);
        status != TRANSOM_OK) {
      table().host_free(device_.handle(), block->memory);
      device_.expect_ok(status, error);
    }
    block->bytes = size;
    held_ += size;
    blocks_.push_back(std::move(block));
    return *blocks_.back();
  }

  const Device& device_;
  transom_stream* stream_ = nullptr;
  std::vector<std::unique_ptr<Block>> blocks_;
  size_t held_ = 0;
};

struct All {
  std::mutex mutex;
  std::unordered_map<const Device*, std::unique_ptr<Staging>> of_devices;
};

All& all() {
  static All& instance = *new All;
  return instance;
}

}  // namespace

bool start_upload(const Device& device, std::span<const std::byte> from, const Buffer& to) {
  const transom_plugin& table = device.table();
  if (!table.host_allocate || !table.host_free || !table.event_create || !table.event_query ||
      !table.event_synchronize || from.empty() || from.size() > kLargest)
    return false;
  Staging* staging = nullptr;
  {
    const std::lock_guard lock(all().mutex);
    std::unique_ptr<Staging>& found = all().of_devices[&device];
    if (!found) found = std::make_unique<Staging>(device);
    staging = found.get();
  }
  staging->upload(from, to);
  return true;
}

void end_uploads(const Device& device) {
  std::unique_ptr<Staging> staging;
  const std::lock_guard lock(all().mutex);
  if (const auto found = all().of_devices.find(&device); found != all().of_devices.end()) {
    staging = std::move(found->second);
    all().of_devices.erase(found);
  }
}

}  // namespace transom
