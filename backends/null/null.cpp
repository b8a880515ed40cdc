// SPDX-License-Identifier: Apache-2.0
// The device that computes nothing: the smallest complete plugin, and the one to copy for new hardware. It accepts
// every graph, claims every composite and leaves outputs as they are, so what remains of a step's time is the host's.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "transom/device_plugin.hpp"

using transom::plugin::expect;

// What the handles stand for. A device that needs no more than one object may use a static one.
struct transom_device {};
struct transom_buffer {
  void* data;
  size_t bytes;
  bool owned;
  ~transom_buffer() {
    if (owned) std::free(data);
  }
};
struct transom_stream {};
struct transom_executable {
  size_t inputs, outputs;
};

namespace {

transom_device the_device;

char* address(transom_binding binding, size_t bytes) {
  expect(binding.buffer && binding.offset <= binding.buffer->bytes && bytes <= binding.buffer->bytes - binding.offset,
         "null: expected a copy inside the buffer, found one that reaches past its end");
  return static_cast<char*>(binding.buffer->data) + binding.offset;
}

// What the host calls, by the names of the table. What these functions throw becomes a status and a line of text.
struct Table {
  // ---- devices

  static void device_count(uint32_t* count) { *count = 1; }

  static void device_describe(uint32_t index, transom_device_properties* properties) {
    expect(index == 0, "null: expected device 0, the only one");
    transom_device_properties mine{};
    std::snprintf(mine.name, sizeof mine.name, "null device");
    std::snprintf(mine.architecture, sizeof mine.architecture, "none");
    std::snprintf(mine.driver, sizeof mine.driver, "none");
    mine.flags = TRANSOM_DEVICE_HOST_MEMORY | TRANSOM_DEVICE_COMPUTES_NOTHING;
    transom::plugin::hand_over(mine, properties);
  }

  static void device_open(uint32_t index, transom_device** device) {
    expect(index == 0, "null: expected device 0, the only one");
    *device = &the_device;
  }

  static void device_close(transom_device*) {}

  // ---- memory

  static void buffer_allocate(transom_device*, size_t bytes, transom_buffer** buffer) {
    expect(bytes <= SIZE_MAX / 4, "null: the buffer is larger than the address space", TRANSOM_OUT_OF_MEMORY);
    auto made = std::make_unique<transom_buffer>(transom_buffer{nullptr, bytes, true});
    made->data = std::aligned_alloc(64, (bytes + 64) / 64 * 64);
    expect(made->data, "null: no memory for the buffer", TRANSOM_OUT_OF_MEMORY);
    *buffer = made.release();
  }

  static void buffer_import(transom_device*, const void* data, size_t bytes, transom_buffer** buffer) {
    *buffer = new transom_buffer{const_cast<void*>(data), bytes, false};
  }

  static void buffer_free(transom_buffer* buffer) { delete buffer; }

  static void* buffer_host_pointer(transom_buffer* buffer) { return buffer->data; }

  static void copy_to_device(transom_stream*, const void* from, transom_binding to, size_t bytes) {
    if (char* target = address(to, bytes); bytes) std::memcpy(target, from, bytes);
  }

  static void copy_to_host(transom_stream*, transom_binding from, void* to, size_t bytes) {
    if (const char* source = address(from, bytes); bytes) std::memcpy(to, source, bytes);
  }

  static void copy_on_device(transom_stream*, transom_binding from, transom_binding to, size_t bytes) {
    char* target = address(to, bytes);
    if (const char* source = address(from, bytes); bytes) std::memmove(target, source, bytes);
  }

  // ---- streams and programs

  static void stream_create(transom_device*, transom_stream** stream) { *stream = new transom_stream; }
  static void stream_destroy(transom_stream* stream) { delete stream; }
  static void stream_synchronize(transom_stream*) {}

  static int32_t claims(transom_device*, const char*, const transom_value*, size_t, const transom_attribute*, size_t) {
    return 1;
  }

  static void compile(transom_device*, const transom_graph* graph, transom_executable** executable) {
    *executable = new transom_executable{graph->inputs_count, graph->outputs_count};
  }
  static void executable_destroy(transom_executable* executable) { delete executable; }

  static void run(transom_executable* executable, const transom_launch* launch) {
    expect(launch->inputs_count == executable->inputs && launch->outputs_count == executable->outputs,
           "null: expected as many inputs and outputs as the graph has");
  }
};

}  // namespace

transom_status transom_plugin_open(const transom_host* host, transom_plugin* plugin, transom_error* error) {
  return transom::plugin::open(host, plugin, error, [](transom_plugin& mine) {
    mine.name = "null";
    mine.version = "1.0";
    mine.priority = 0;  // never chosen by itself
    transom::plugin::fill_table<Table>(mine);
  });
}
