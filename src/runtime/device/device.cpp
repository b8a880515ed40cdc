// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/device.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/error.h"
#include "runtime/device/communicator.h"
#include "runtime/device/upload_staging.h"

namespace transom {

Buffer::~Buffer() { device_->table().buffer_free(handle_); }

uint64_t Buffer::next_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

std::shared_ptr<Buffer> Buffer::derived(const std::vector<uint64_t>& key,
                                        const std::function<std::shared_ptr<Buffer>()>& make) {
  // What is made of a table of positions differs from length to length: without a limit a process that is asked for all
  // of them would keep all of them. As much as so many of the largest stays; those that were made first go.
  constexpr size_t kMost = 8;
  std::vector<std::shared_ptr<Buffer>> dropped;  // released without the lock
  const std::lock_guard lock(derived_mutex_);
  if (const auto found = derived_.find(key); found != derived_.end()) return found->second;
  const std::shared_ptr<Buffer> made = make();
  derived_.emplace(key, made);
  size_t total = 0, largest = 0;
  for (const auto& [of, buffer] : derived_) {
    total += buffer->bytes();
    largest = std::max(largest, buffer->bytes());
  }
  while (total > kMost * largest) {
    const auto oldest = std::min_element(derived_.begin(), derived_.end(), [](const auto& a, const auto& b) {
      return a.second->id() < b.second->id();  // ids count upwards
    });
    total -= oldest->second->bytes();
    dropped.push_back(std::move(oldest->second));
    derived_.erase(oldest);
  }
  return made;
}

void Buffer::read(std::span<std::byte> to) const {
  expect_contents();
  transom_error error{};
  const transom_plugin& table = device_->table();
  const auto turn = device_->take_turn();
  if (!to.empty())
    device_->expect_ok(table.copy_to_host(device_->stream(), {handle(), 0}, to.data(), to.size(), &error), error);
  device_->expect_ok(table.stream_synchronize(device_->stream(), &error), error);
}

void Buffer::write(std::span<const std::byte> from) const {
  transom_error error{};
  if (from.empty()) return;
  const transom_plugin& table = device_->table();
  const auto turn = device_->take_turn();
  device_->expect_ok(table.copy_to_device(device_->stream(), from.data(), {handle_, 0}, from.size(), &error), error);
  device_->expect_ok(table.stream_synchronize(device_->stream(), &error), error);
}

void Buffer::expect_contents() const {
  if (overwritten())
    fail(ErrorKind::kDevice,
         "{}: a value is lost: the computation that was to write over it failed midway; make the tensor anew, or load "
         "it "
         "again",
         device_->name());
}

std::byte* Buffer::host_pointer() const {
  if (!device_->shares_host_memory()) return nullptr;
  return static_cast<std::byte*>(device_->table().buffer_host_pointer(handle_));
}

Device::Device() = default;

void Device::expect_ok(transom_status status, const transom_error& error) const {
  if (status == TRANSOM_DEVICE_LOST) lost_ = true;
  transom::expect_ok(status, error, name_);
}

void Device::join(std::unique_ptr<Communicator> communicator) { communicator_ = std::move(communicator); }

Device::~Device() {
  end_uploads(*this);
  communicator_.reset();
  // The arena's buffer holds no reference that would keep the device alive: it is made without one, see arena().
  arena_.reset();
  if (stream_) table().stream_destroy(stream_);
  if (handle_) table().device_close(handle_);
}

std::shared_ptr<Buffer> Device::allocate(size_t bytes) {
  transom_error error{};
  transom_buffer* handle = nullptr;
  expect_ok(table().buffer_allocate(handle_, bytes, &handle, &error), error);
  return std::make_shared<Buffer>(shared_from_this(), handle, bytes, false, nullptr);
}

std::shared_ptr<Buffer> Device::upload(std::span<const std::byte> bytes) {
  auto buffer = allocate(bytes.size());
  // No work on the stream knows the new buffer: where it is host memory, who prepares a batch beside a step that runs
  // need not wait for it. What is large is copied by the device with all cores.
  constexpr size_t kSmall = 1 << 20;
  if (shares_host_memory() && bytes.size() <= kSmall) {
    if (!bytes.empty()) std::memcpy(buffer->host_pointer(), bytes.data(), bytes.size());
    return buffer;
  }
  if (has(TRANSOM_DEVICE_HOST_MEMORY) || !start_upload(*this, bytes, *buffer)) buffer->write(bytes);
  return buffer;
}

std::shared_ptr<Buffer> Device::import(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  if (table().buffer_import) return imported(bytes, true, std::move(owner));
  transom_error error{};
  transom_buffer* handle = nullptr;
  expect_ok(table().buffer_allocate(handle_, bytes.size(), &handle, &error), error);
  auto buffer = std::make_shared<Buffer>(shared_from_this(), handle, bytes.size(), true, nullptr);
  buffer->write(bytes);
  return buffer;
}

std::shared_ptr<Buffer> Device::import(std::span<const std::byte> bytes, std::shared_ptr<DeferredMemory> deferred,
                                       DeferredMemory::Part part) {
  const transom_buffer_defer_function defer = table().buffer_import ? plugin_->buffer_defer() : nullptr;
  if (!defer) {
    deferred->finish();
    return import(bytes, std::move(deferred));
  }
  std::shared_ptr<Buffer> buffer = imported(bytes, true, deferred);
  if (part == DeferredMemory::kCodes) defer(buffer->handle_, &deferred->source());
  if (gathers_deferred()) plugin_->buffer_defer_parts()(buffer->handle_, &deferred->parts(part));
  buffer->deferred_ = std::move(deferred);
  return buffer;
}

std::shared_ptr<Buffer> Device::borrow(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  return table().buffer_import ? imported(bytes, false, std::move(owner)) : upload(bytes);
}

std::shared_ptr<Buffer> Device::imported(std::span<const std::byte> bytes, bool frozen,
                                         std::shared_ptr<const void> owner) {
  transom_error error{};
  transom_buffer* handle = nullptr;
  expect_ok(table().buffer_import(handle_, bytes.data(), bytes.size(), &handle, &error), error);
  return std::make_shared<Buffer>(shared_from_this(), handle, bytes.size(), frozen, std::move(owner));
}

void Device::synchronize() {
  transom_error error{};
  const auto turn = take_turn();
  expect_ok(table().stream_synchronize(stream_, &error), error);
}

MemoryUse Device::memory_use() const {
  transom_memory_statistics statistics{.struct_size = sizeof(transom_memory_statistics)};
  transom_error error{};
  if (!table().memory_statistics) return {};
  expect_ok(table().memory_statistics(handle_, &statistics, &error), error);
  return {statistics.bytes_in_use, statistics.peak_bytes_in_use, statistics.bytes_limit};
}

const std::shared_ptr<Buffer>& Device::arena(size_t bytes) {
  if (!arena_ || arena_->bytes() < bytes) {
    arena_.reset();
    transom_error error{};
    transom_buffer* handle = nullptr;
    expect_ok(table().buffer_allocate(handle_, bytes, &handle, &error), error);
    // An owning pointer to this device would be a cycle.
    arena_ = std::make_shared<Buffer>(std::shared_ptr<Device>(std::shared_ptr<Device>(), this), handle, bytes, false,
                                      nullptr);
  }
  return arena_;
}

}  // namespace transom
