// SPDX-License-Identifier: Apache-2.0
// The C++ side of the plugin interface: devices and buffers that clean up after themselves, and errors as exceptions.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "graph/ir/node.h"
#include "runtime/device/deferred_memory.h"
#include "runtime/device/plugin.h"
#include "transom/device.h"

namespace transom {

class Device;
class Communicator;  // device/communicator.h

// Memory on a device.
class Buffer : public Storage {
 public:
  Buffer(std::shared_ptr<Device> device, transom_buffer* handle, size_t bytes, bool frozen,
         std::shared_ptr<const void> owner)
      : device_(std::move(device)), handle_(handle), bytes_(bytes), frozen_(frozen), owner_(std::move(owner)) {}
  ~Buffer() override;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Device& device() const { return *device_; }
  // With all contents: what is deferred is written first.
  transom_buffer* handle() const {
    finish();
    return handle_;
  }
  // For who reads deferred contents as DeferredMemory has them.
  transom_buffer* unfinished_handle() const { return handle_; }
  size_t bytes() const { return bytes_; }
  bool frozen() const { return frozen_; }  // keeps its contents for as long as it lives
  // Whether a program may take the memory over: it is neither frozen nor another library's.
  bool is_writable() const { return !frozen_ && !owner_; }

  // Where the contents lie in the host's memory, on a device that computes there; null on all others. Who reads or
  // writes them waits for the device first.
  std::byte* host_pointer() const;

  uint64_t id() const { return id_; }  // no other buffer of the process has it, now or later

  // A buffer that is made of this one, which is frozen, and kept as long as it lives; made at the first call with a
  // key.
  std::shared_ptr<Buffer> derived(const std::vector<uint64_t>& key,
                                  const std::function<std::shared_ptr<Buffer>()>& make);

  void read(std::span<std::byte> to) const;  // waits for what makes the contents
  void write(std::span<const std::byte> from) const;

  // A program that takes over the memory and fails midway leaves contents there that are no tensor's value. It says so
  // here, and whoever reads the buffer or computes with it gets an error. Safe from all threads.
  void set_overwritten(bool overwritten = true) { overwritten_ = overwritten; }
  bool overwritten() const { return overwritten_; }
  void expect_contents() const;  // throws an Error of kind kDevice if they are overwritten

 private:
  friend class Device;
  void finish() const {
    if (deferred_) deferred_->finish();
  }
  std::shared_ptr<Device> device_;
  transom_buffer* handle_;
  size_t bytes_;
  bool frozen_;
  std::shared_ptr<const void> owner_;  // of imported host memory
  std::shared_ptr<DeferredMemory> deferred_;
  uint64_t id_ = next_id();
  std::atomic<bool> overwritten_{false};
  std::mutex derived_mutex_;
  std::map<std::vector<uint64_t>, std::shared_ptr<Buffer>> derived_;

  static uint64_t next_id();
};

// A device, its stream and its arena serve one thread at a time. What enqueues work on the stream takes its turn by
// itself (Buffer::read and write, Program::run, CapturedProgram); all else here is safe from all threads, but for
// join().
class Device : public std::enable_shared_from_this<Device> {
 public:
  // "cpu", "cuda:1"; empty: TRANSOM_DEVICE, else the best. Opened once, shared from then on.
  static std::shared_ptr<Device> open(const std::string& name);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }
  const transom_plugin& table() const { return plugin_->table(); }
  const fs::path& plugin_file() const { return plugin_->path(); }
  const transom_device_properties& properties() const { return properties_; }
  transom_device* handle() const { return handle_; }
  transom_stream* stream() const { return stream_; }
  // The device is the caller's while the lock lives. Only who holds it may pass stream() to the plugin or use the
  // arena. A thread may take it several times.
  [[nodiscard]] std::unique_lock<std::recursive_mutex> take_turn() const { return std::unique_lock(turn_); }
  // Throws as expect_ok() does (see plugin.h), and remembers whether the device is lost: then open() makes another one.
  void expect_ok(transom_status status, const transom_error& error) const;
  bool lost() const { return lost_; }
  bool has(transom_device_flag flag) const { return properties_.flags & flag; }
  // Whether it computes in memory that the host reaches as well, see Buffer::host_pointer.
  bool shares_host_memory() const { return has(TRANSOM_DEVICE_HOST_MEMORY) && table().buffer_host_pointer; }

  std::shared_ptr<Buffer> allocate(size_t bytes);
  std::shared_ptr<Buffer> upload(std::span<const std::byte> bytes);
  // In place where the device can, else a copy.
  std::shared_ptr<Buffer> import(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  // The same for memory that is written later, where the device can wait for it; else it is written first.
  std::shared_ptr<Buffer> import(std::span<const std::byte> bytes, std::shared_ptr<DeferredMemory> deferred,
                                 DeferredMemory::Part part);
  // Whether it looks up parts of such memory without all of it.
  bool gathers_deferred() const { return plugin_->buffer_defer() && plugin_->buffer_defer_parts(); }
  // The same for memory that is only read for a while: not frozen, so that nothing made of it is kept.
  std::shared_ptr<Buffer> borrow(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  void synchronize();
  MemoryUse memory_use() const;

  // A buffer of at least so many bytes that one program at a time uses as its arena: for who has its turn.
  const std::shared_ptr<Buffer>& arena(size_t bytes);

  // Makes this device one of a group: from then on programs carry their collectives out between its ranks. Null: alone
  // again.
  void join(std::unique_ptr<Communicator> communicator);
  Communicator* communicator() const { return communicator_.get(); }

 private:
  Device();
  std::shared_ptr<Buffer> imported(std::span<const std::byte> bytes, bool frozen, std::shared_ptr<const void> owner);
  std::shared_ptr<const Plugin> plugin_;
  std::string name_;
  transom_device_properties properties_{};
  transom_device* handle_ = nullptr;
  transom_stream* stream_ = nullptr;
  mutable std::recursive_mutex turn_;
  mutable std::atomic<bool> lost_{false};
  std::shared_ptr<Buffer> arena_;
  std::unique_ptr<Communicator> communicator_;
};

DeviceInfo describe_device(const Device& device);

// The device in use on this thread; see set_device and DeviceScope.
std::shared_ptr<Device> default_device();

}  // namespace transom
