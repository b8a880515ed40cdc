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

namespace {

constexpr size_t kAlignment = 64;

void set_text(transom_error* error, std::string_view text) {
  const size_t length = std::min(text.size(), sizeof error->text - 1);
  std::memcpy(error->text, text.data(), length);
  error->text[length] = 0;
}

// Does body() and turns what it throws into a status: no exception may cross the interface.
template <typename Body>
transom_status guarded(transom_error* error, Body&& body) noexcept {
  try {
    body();
    return TRANSOM_OK;
  } catch (const std::bad_alloc&) {
    set_text(error, "reference: the host's memory is exhausted");
    return TRANSOM_OUT_OF_MEMORY;
  } catch (const transom::Error& e) {
    set_text(error, e.what());
    return e.kind() == transom::ErrorKind::kInternal ? TRANSOM_INTERNAL : TRANSOM_INVALID_ARGUMENT;
  } catch (const std::exception& e) {
    set_text(error, e.what());
    return TRANSOM_INTERNAL;
  }
}

// ---- devices

transom_status device_count(uint32_t* count, transom_error*) {
  *count = 1;
  return TRANSOM_OK;
}

transom_status expect_first(uint32_t index, transom_error* error) {
  if (index == 0) return TRANSOM_OK;
  return guarded(error, [&] { transom::fail("reference: there is one device, number 0; found {}", index); });
}

transom_status device_describe(uint32_t index, transom_device_properties* properties, transom_error* error) {
  if (const transom_status status = expect_first(index, error)) return status;
  transom_device_properties mine{};
  mine.struct_size = std::min(properties->struct_size, sizeof mine);
  std::strcpy(mine.name, "reference interpreter");
  std::strcpy(mine.architecture, "float64");
  std::strcpy(mine.driver, TRANSOM_VERSION);
  mine.flags = TRANSOM_DEVICE_HOST_MEMORY;
  mine.compute_units = 1;
  std::memcpy(properties, &mine, mine.struct_size);
  return TRANSOM_OK;
}

transom_status device_open(uint32_t index, transom_device** device, transom_error* error) {
  if (const transom_status status = expect_first(index, error)) return status;
  return guarded(error, [&] { *device = new transom_device; });
}

void device_close(transom_device* device) { delete device; }

// ---- memory

transom_status buffer_allocate(transom_device* device, size_t bytes, transom_buffer** buffer, transom_error* error) {
  return guarded(error, [&] {
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
  });
}

transom_status buffer_import(transom_device* device, const void* data, size_t bytes, transom_buffer** buffer,
                             transom_error* error) {
  return guarded(error, [&] {
    auto made = std::make_unique<transom_buffer>(device, bytes);
    made->data = const_cast<std::byte*>(static_cast<const std::byte*>(data));
    made->imported = true;
    *buffer = made.release();
  });
}

void buffer_free(transom_buffer* buffer) {
  if (!buffer) return;
  if (!buffer->imported) {
    buffer->device->bytes_in_use -= buffer->bytes;
    ::operator delete(buffer->data, std::align_val_t(kAlignment));
  }
  delete buffer;
}

void* buffer_host_pointer(transom_buffer* buffer) { return buffer->data; }

std::byte* checked(transom_binding binding, size_t bytes) {
  const size_t size = binding.buffer->bytes;
  if (binding.offset > size || bytes > size - binding.offset)
    transom::fail("reference: {} bytes at offset {} do not fit a buffer of {}", bytes, binding.offset, size);
  return binding.buffer->data + binding.offset;
}
std::byte* writable(transom_binding binding, size_t bytes) {
  if (binding.buffer->imported) transom::fail("reference: imported memory is only read");
  return checked(binding, bytes);
}
void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes) std::memmove(to, from, bytes);
}

transom_status copy_to_device(transom_stream*, const void* from, transom_binding to, size_t bytes,
                              transom_error* error) {
  return guarded(error, [&] { copy_bytes(writable(to, bytes), from, bytes); });
}
transom_status copy_to_host(transom_stream*, transom_binding from, void* to, size_t bytes, transom_error* error) {
  return guarded(error, [&] { copy_bytes(to, checked(from, bytes), bytes); });
}
transom_status copy_on_device(transom_stream*, transom_binding from, transom_binding to, size_t bytes,
                              transom_error* error) {
  return guarded(error, [&] { copy_bytes(writable(to, bytes), checked(from, bytes), bytes); });
}

transom_status memory_statistics(transom_device* device, transom_memory_statistics* statistics, transom_error*) {
  transom_memory_statistics mine{};
  mine.struct_size = std::min(statistics->struct_size, sizeof mine);
  mine.bytes_in_use = device->bytes_in_use;
  mine.peak_bytes_in_use = device->peak_bytes_in_use;
  mine.allocations = device->allocations;
  mine.handles = Handle::live;
  std::memcpy(statistics, &mine, mine.struct_size);
  return TRANSOM_OK;
}

// ---- streams and events

transom_status stream_create(transom_device* device, transom_stream** stream, transom_error* error) {
  return guarded(error, [&] { *stream = new transom_stream(device); });
}
void stream_destroy(transom_stream* stream) { delete stream; }
transom_status stream_synchronize(transom_stream*, transom_error*) { return TRANSOM_OK; }

transom_status event_create(transom_device*, transom_event** event, transom_error* error) {
  return guarded(error, [&] { *event = new transom_event; });
}
void event_destroy(transom_event* event) { delete event; }
transom_status event_record(transom_event* event, transom_stream*, transom_error*) {
  event->time = std::chrono::steady_clock::now();
  return TRANSOM_OK;
}
transom_status event_wait(transom_event*, transom_stream*, transom_error*) { return TRANSOM_OK; }
transom_status event_elapsed(transom_event* from, transom_event* to, double* seconds, transom_error*) {
  *seconds = std::chrono::duration<double>(to->time - from->time).count();
  return TRANSOM_OK;
}

// ---- programs

int32_t claims(transom_device*, const char*, const transom_value*, size_t, const transom_attribute*, size_t) {
  return 0;
}

transom_status compile(transom_device*, const transom_graph* graph, transom_executable** executable,
                       transom_error* error) {
  return guarded(error, [&] { *executable = new transom_executable(*graph); });
}
void executable_destroy(transom_executable* executable) { delete executable; }

transom_status run(transom_executable* executable, const transom_launch* launch, transom_error* error) {
  return guarded(error, [&] { executable->run(*launch); });
}
const char* executable_describe(transom_executable* executable) { return executable->description().c_str(); }

transom_status profile(transom_device* device, transom_profile_callback callback, void* user, transom_error*) {
  const std::lock_guard lock(device->mutex);
  device->profile = callback;
  device->profile_user = user;
  return TRANSOM_OK;
}

}  // namespace

transom_status transom_plugin_open(const transom_host* host, transom_plugin* plugin, transom_error* error) {
  if (host->major != TRANSOM_PLUGIN_MAJOR) {
    set_text(error, fmt::format("reference: expected a host of interface version {}, found {}", TRANSOM_PLUGIN_MAJOR,
                                host->major));
    return TRANSOM_UNSUPPORTED;
  }
  transom_plugin mine{};
  mine.struct_size = std::min(plugin->struct_size, sizeof mine);
  mine.major = TRANSOM_PLUGIN_MAJOR;
  mine.minor = TRANSOM_PLUGIN_MINOR;
  mine.name = "reference";
  mine.version = TRANSOM_VERSION;
  mine.priority = 1;
  mine.device_count = device_count;
  mine.device_describe = device_describe;
  mine.device_open = device_open;
  mine.device_close = device_close;
  mine.buffer_allocate = buffer_allocate;
  mine.buffer_import = buffer_import;
  mine.buffer_free = buffer_free;
  mine.buffer_host_pointer = buffer_host_pointer;
  mine.copy_to_device = copy_to_device;
  mine.copy_to_host = copy_to_host;
  mine.copy_on_device = copy_on_device;
  mine.memory_statistics = memory_statistics;
  mine.stream_create = stream_create;
  mine.stream_destroy = stream_destroy;
  mine.stream_synchronize = stream_synchronize;
  mine.event_create = event_create;
  mine.event_destroy = event_destroy;
  mine.event_record = event_record;
  mine.event_wait = event_wait;
  mine.event_elapsed = event_elapsed;
  mine.claims = claims;
  mine.compile = compile;
  mine.executable_destroy = executable_destroy;
  mine.run = run;
  mine.executable_describe = executable_describe;
  mine.profile = profile;
  std::memcpy(plugin, &mine, mine.struct_size);
  return TRANSOM_OK;
}
