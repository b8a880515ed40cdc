// SPDX-License-Identifier: Apache-2.0
// The device `reference`: a plain interpreter that computes each node by the float64 `evaluate` of its operation's
// record and rounds every output to its element type. It is what other devices are compared with, and it is slow. It
// claims no composite, so that it sees primitives only.
//
// A device knows the plugin header and nothing else; this one alone links the library and reads its op records, because
// it *is* those records behind the plugin header.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "base/error.h"
#include "reference/executable.h"
#include "reference/handles.h"
#include "transom/plugin/error.h"

namespace {

constexpr size_t kAlignment = 64;

void require_device(uint32_t index) {
  if (index != 0) transom::fail("reference: there is one device, number 0; found {}", index);
}

std::byte* checked(transom_binding binding, size_t bytes) {
  transom::backend::expect_inside(binding, binding.buffer->bytes, bytes);
  return binding.buffer->data + binding.offset;
}
std::byte* writable(transom_binding binding, size_t bytes) {
  if (binding.buffer->imported) transom::fail("reference: imported memory is only read");
  return checked(binding, bytes);
}
void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes) std::memmove(to, from, bytes);
}

// What the table calls; exceptions become a status there.
struct Table {
  // The library's own errors say of which kind they are.
  template <typename Work, typename... Arguments>
  static transom_status guard(transom_error* error, Work&& work, Arguments&&...) noexcept {
    return transom::plugin::guarded(error, [&] {
      try {
        work();
      } catch (const transom::Error& e) {
        const bool internal = e.kind() == transom::ErrorKind::kInternal;
        throw transom::plugin::Failure(internal ? TRANSOM_INTERNAL : TRANSOM_INVALID_ARGUMENT, e.what());
      }
    });
  }

  // ---- devices

  static void device_count(uint32_t* count) { *count = 1; }

  static void device_describe(uint32_t index, transom_device_properties* properties) {
    require_device(index);
    transom_device_properties mine{};
    std::strcpy(mine.name, "reference interpreter");
    std::strcpy(mine.architecture, "float64");
    std::strcpy(mine.driver, TRANSOM_VERSION);
    mine.flags = TRANSOM_DEVICE_HOST_MEMORY;
    mine.compute_units = 1;
    transom::plugin::hand_over(mine, properties);
  }

  static void device_open(uint32_t index, transom_device** device) {
    require_device(index);
    *device = new transom_device;
  }

  static void device_close(transom_device* device) { delete device; }

  // ---- memory

  static void buffer_allocate(transom_device* device, size_t bytes, transom_buffer** buffer) {
    // Sizes near the end of size_t would wrap around where the allocator rounds them up.
    if (bytes > SIZE_MAX / 4) throw std::bad_alloc();
    auto made = std::make_unique<transom_buffer>(device, bytes);
    made->data = static_cast<std::byte*>(::operator new(bytes, std::align_val_t(kAlignment)));
    *buffer = made.release();
    const uint64_t in_use = device->bytes_in_use += bytes;
    uint64_t peak = device->peak_bytes_in_use;
    while (peak < in_use && !device->peak_bytes_in_use.compare_exchange_weak(peak, in_use)) {
    }
    ++device->allocations;
  }

  static void buffer_import(transom_device* device, const void* data, size_t bytes, transom_buffer** buffer) {
    auto made = std::make_unique<transom_buffer>(device, bytes);
    made->data = const_cast<std::byte*>(static_cast<const std::byte*>(data));
    made->imported = true;
    *buffer = made.release();
  }

  static void buffer_free(transom_buffer* buffer) {
    if (!buffer) return;
    if (!buffer->imported) {
      buffer->device->bytes_in_use -= buffer->bytes;
      ::operator delete(buffer->data, std::align_val_t(kAlignment));
    }
    delete buffer;
  }

  static void* buffer_host_pointer(transom_buffer* buffer) { return buffer->data; }

  static void copy_to_device(transom_stream*, const void* from, transom_binding to, size_t bytes) {
    copy_bytes(writable(to, bytes), from, bytes);
  }
  static void copy_to_host(transom_stream*, transom_binding from, void* to, size_t bytes) {
    copy_bytes(to, checked(from, bytes), bytes);
  }
  static void copy_on_device(transom_stream*, transom_binding from, transom_binding to, size_t bytes) {
    copy_bytes(writable(to, bytes), checked(from, bytes), bytes);
  }

  static void memory_statistics(transom_device* device, transom_memory_statistics* statistics) {
    transom_memory_statistics mine{};
    mine.bytes_in_use = device->bytes_in_use;
    mine.peak_bytes_in_use = device->peak_bytes_in_use;
    mine.allocations = device->allocations;
    mine.handles = Handle::live;
    transom::plugin::hand_over(mine, statistics);
  }

  // ---- streams and events

  static void stream_create(transom_device* device, transom_stream** stream) { *stream = new transom_stream(device); }
  static void stream_destroy(transom_stream* stream) { delete stream; }
  static void stream_synchronize(transom_stream*) {}

  static void event_create(transom_device*, transom_event** event) { *event = new transom_event; }
  static void event_destroy(transom_event* event) { delete event; }
  static void event_record(transom_event* event, transom_stream*) { event->time = std::chrono::steady_clock::now(); }
  static void event_wait(transom_event*, transom_stream*) {}
  static void event_elapsed(transom_event* from, transom_event* to, double* seconds) {
    *seconds = std::chrono::duration<double>(to->time - from->time).count();
  }

  // ---- programs

  static int32_t claims(transom_device*, const char*, const transom_value*, size_t, const transom_attribute*, size_t) {
    return 0;
  }

  static void compile(transom_device*, const transom_graph* graph, transom_executable** executable) {
    *executable = new transom_executable(*graph);
  }
  static void executable_destroy(transom_executable* executable) { delete executable; }
  static void run(transom_executable* executable, const transom_launch* launch) { executable->run(*launch); }
  static const char* executable_describe(transom_executable* executable) { return executable->description().c_str(); }

  static void profile(transom_device* device, transom_profile_callback callback, void* user) {
    const std::lock_guard lock(device->mutex);
    device->profile = callback;
    device->profile_user = user;
  }
};

}  // namespace

transom_status transom_plugin_open(const transom_host* host, transom_plugin* plugin, transom_error* error) {
  return transom::plugin::open(host, plugin, error, [](transom_plugin& mine) {
    mine.name = "reference";
    mine.version = TRANSOM_VERSION;
    mine.priority = 1;
    transom::plugin::fill_table<Table>(mine);
  });
}
