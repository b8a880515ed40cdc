// SPDX-License-Identifier: Apache-2.0
// The device that computes nothing: the smallest complete plugin, and the one to copy for new hardware. It accepts
// every graph, claims every composite and leaves outputs as they are, so what remains of a step's time is the host's.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "transom/device_plugin.h"

// What the handles stand for. A device that needs no more than one object may use a static one.
struct transom_device {};
struct transom_buffer {
  void* data;
  size_t bytes;
  bool owned;
};
struct transom_stream {};
struct transom_executable {
  size_t inputs, outputs;
};

namespace {

transom_device the_device;

// Every failure takes this way: one line of text, and the status is handed on.
transom_status failure(transom_status status, transom_error* error, const char* text) {
  std::snprintf(error->text, sizeof error->text, "null: %s", text);
  return status;
}

bool fits(transom_binding binding, size_t bytes) {
  return binding.buffer && binding.offset <= binding.buffer->bytes && bytes <= binding.buffer->bytes - binding.offset;
}

char* address(transom_binding binding) { return static_cast<char*>(binding.buffer->data) + binding.offset; }

// ---- devices

transom_status device_count(uint32_t* count, transom_error*) {
  *count = 1;
  return TRANSOM_OK;
}

transom_status device_describe(uint32_t index, transom_device_properties* properties, transom_error* error) {
  if (index != 0) return failure(TRANSOM_INVALID_ARGUMENT, error, "expected device 0, the only one");
  transom_device_properties mine{};
  mine.struct_size = properties->struct_size < sizeof mine ? properties->struct_size : sizeof mine;
  std::snprintf(mine.name, sizeof mine.name, "null device");
  std::snprintf(mine.architecture, sizeof mine.architecture, "none");
  std::snprintf(mine.driver, sizeof mine.driver, "none");
  mine.flags = TRANSOM_DEVICE_HOST_MEMORY | TRANSOM_DEVICE_COMPUTES_NOTHING;
  std::memcpy(properties, &mine, mine.struct_size);
  return TRANSOM_OK;
}

transom_status device_open(uint32_t index, transom_device** device, transom_error* error) {
  if (index != 0) return failure(TRANSOM_INVALID_ARGUMENT, error, "expected device 0, the only one");
  *device = &the_device;
  return TRANSOM_OK;
}

void device_close(transom_device*) {}

// ---- memory

transom_status buffer_allocate(transom_device*, size_t bytes, transom_buffer** buffer, transom_error* error) {
  if (bytes > SIZE_MAX / 4) return failure(TRANSOM_OUT_OF_MEMORY, error, "the buffer is larger than the address space");
  void* data = std::aligned_alloc(64, (bytes + 64) / 64 * 64);
  transom_buffer* made = data ? new (std::nothrow) transom_buffer{data, bytes, true} : nullptr;
  if (!made) {
    std::free(data);
    return failure(TRANSOM_OUT_OF_MEMORY, error, "no memory for the buffer");
  }
  *buffer = made;
  return TRANSOM_OK;
}

transom_status buffer_import(transom_device*, const void* data, size_t bytes, transom_buffer** buffer,
                             transom_error* error) {
  auto* made = new (std::nothrow) transom_buffer{const_cast<void*>(data), bytes, false};
  if (!made) return failure(TRANSOM_OUT_OF_MEMORY, error, "no memory for the buffer");
  *buffer = made;
  return TRANSOM_OK;
}

void buffer_free(transom_buffer* buffer) {
  if (buffer && buffer->owned) std::free(buffer->data);
  delete buffer;
}

void* buffer_host_pointer(transom_buffer* buffer) { return buffer->data; }

transom_status copy_to_device(transom_stream*, const void* from, transom_binding to, size_t bytes,
                              transom_error* error) {
  if (!fits(to, bytes)) return failure(TRANSOM_INVALID_ARGUMENT, error, "the copy reaches past the end of the buffer");
  if (bytes) std::memcpy(address(to), from, bytes);
  return TRANSOM_OK;
}

transom_status copy_to_host(transom_stream*, transom_binding from, void* to, size_t bytes, transom_error* error) {
  if (!fits(from, bytes))
    return failure(TRANSOM_INVALID_ARGUMENT, error, "the copy reaches past the end of the buffer");
  if (bytes) std::memcpy(to, address(from), bytes);
  return TRANSOM_OK;
}

transom_status copy_on_device(transom_stream*, transom_binding from, transom_binding to, size_t bytes,
                              transom_error* error) {
  if (!fits(from, bytes) || !fits(to, bytes))
    return failure(TRANSOM_INVALID_ARGUMENT, error, "the copy reaches past the end of a buffer");
  if (bytes) std::memmove(address(to), address(from), bytes);
  return TRANSOM_OK;
}

// ---- streams and programs

transom_status stream_create(transom_device*, transom_stream** stream, transom_error* error) {
  transom_stream* made = new (std::nothrow) transom_stream;
  if (!made) return failure(TRANSOM_OUT_OF_MEMORY, error, "no memory for the stream");
  *stream = made;
  return TRANSOM_OK;
}

void stream_destroy(transom_stream* stream) { delete stream; }

transom_status stream_synchronize(transom_stream*, transom_error*) { return TRANSOM_OK; }

int32_t claims(transom_device*, const char*, const transom_value*, size_t, const transom_attribute*, size_t) {
  return 1;
}

transom_status compile(transom_device*, const transom_graph* graph, transom_executable** executable,
                       transom_error* error) {
  auto* made = new (std::nothrow) transom_executable{graph->inputs_count, graph->outputs_count};
  if (!made) return failure(TRANSOM_OUT_OF_MEMORY, error, "no memory for the executable");
  *executable = made;
  return TRANSOM_OK;
}

void executable_destroy(transom_executable* executable) { delete executable; }

transom_status run(transom_executable* executable, const transom_launch* launch, transom_error* error) {
  if (launch->inputs_count != executable->inputs || launch->outputs_count != executable->outputs)
    return failure(TRANSOM_INVALID_ARGUMENT, error, "expected as many inputs and outputs as the graph has");
  return TRANSOM_OK;
}

}  // namespace

transom_status transom_plugin_open(const transom_host* host, transom_plugin* plugin, transom_error* error) {
  if (host->major != TRANSOM_PLUGIN_MAJOR)
    return failure(TRANSOM_UNSUPPORTED, error, "built for another major version of the plugin interface");
  transom_plugin mine{};
  mine.struct_size = plugin->struct_size < sizeof mine ? plugin->struct_size : sizeof mine;
  mine.major = TRANSOM_PLUGIN_MAJOR;
  mine.minor = TRANSOM_PLUGIN_MINOR;
  mine.name = "null";
  mine.version = "1.0";
  mine.priority = 0;
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
  mine.stream_create = stream_create;
  mine.stream_destroy = stream_destroy;
  mine.stream_synchronize = stream_synchronize;
  mine.claims = claims;
  mine.compile = compile;
  mine.executable_destroy = executable_destroy;
  mine.run = run;
  std::memcpy(plugin, &mine, mine.struct_size);
  return TRANSOM_OK;
}
