// SPDX-License-Identifier: Apache-2.0
// The table of the plugin interface over a vendor's runtime. This file is the same in each of the plugins.
#include <atomic>
#include <cstring>
#include <memory>

#include "gpu/device/device.h"
#include "gpu/device/executable.h"
#include "gpu/lowering/lowering.h"

namespace transom::gpu {
namespace {

std::atomic<void (*)(int32_t level, const char* text)> host_log = nullptr;  // since the plugin was opened

template <size_t size>
void put_text(char (&to)[size], const std::string& text) {
  std::snprintf(to, size, "%s", text.c_str());
}

transom_device* device_of(transom_device* device) { return device; }
transom_device* device_of(transom_stream* stream) { return stream->device; }
transom_device* device_of(transom_event* event) { return event->device; }
transom_device* device_of(auto&&...) { return nullptr; }

// What the table calls; exceptions become a status there.
struct Table {
  template <typename Work, typename First, typename... Rest>
  static transom_status guard(transom_error* error, Work&& work, First first, Rest&&...) noexcept {
    return guarded_on(device_of(first), error, std::forward<Work>(work));
  }

  // ---- devices

  static void device_count(uint32_t* count) { *count = runtime().device_count(); }

  static void device_describe(uint32_t index, transom_device_properties* properties) {
    const Facts facts = runtime().facts(index);
    transom_device_properties mine{};
    put_text(mine.name, facts.name);
    put_text(mine.architecture, facts.architecture);
    put_text(mine.driver, facts.driver);
    mine.flags = facts.emulated ? TRANSOM_DEVICE_EMULATED : 0;
    mine.memory_bytes = facts.memory_bytes;
    mine.compute_units = facts.compute_units;
    mine.fast_dtypes = facts.fast_dtypes;
    plugin::hand_over(mine, properties);
  }

  static void device_open(uint32_t index, transom_device** device) {
    *device = new transom_device(runtime().open(index));
  }
  static void device_close(transom_device* device) { delete device; }

  // ---- memory

  static void buffer_allocate(transom_device* device, size_t bytes, transom_buffer** buffer) {
    *buffer = new transom_buffer(device, bytes);
  }
  static void buffer_free(transom_buffer* buffer) { delete buffer; }

  static void copy_to_device(transom_stream* stream, const void* from, transom_binding to, size_t bytes) {
    std::byte* target = transom_buffer::at(to, bytes);
    if (bytes == 0) return;
    stream->queue().copy_to_device(target, from, bytes);
    stream->issued();
  }
  static void copy_to_host(transom_stream* stream, transom_binding from, void* to, size_t bytes) {
    const std::byte* source = transom_buffer::at(from, bytes);
    if (bytes == 0) return;
    stream->queue().copy_to_host(to, source, bytes);
    stream->issued();
  }
  static void copy_on_device(transom_stream* stream, transom_binding from, transom_binding to, size_t bytes) {
    std::byte* target = transom_buffer::at(to, bytes);
    const std::byte* source = transom_buffer::at(from, bytes);
    if (bytes == 0 || target == source) return;
    if (source < target + bytes && target < source + bytes) {  // through memory of our own
      std::byte* between = stream->scratch(bytes);
      stream->queue().copy_on_device(between, source, bytes);
      source = between;
    }
    stream->queue().copy_on_device(target, source, bytes);
    stream->issued();
  }
  static void memory_statistics(transom_device* device, transom_memory_statistics* statistics) {
    plugin::hand_over(device->memory.statistics(), statistics);
  }
  static void memory_reset_peak(transom_device* device) { device->memory.reset_peak(); }
  static void host_allocate(transom_device* device, size_t bytes, void** memory) {
    *memory = bytes ? device->context->allocate_host(bytes) : nullptr;
  }
  static void host_free(transom_device* device, void* memory) {
    if (memory) device->context->release_host(memory);
  }

  // ---- streams and events

  static void stream_create(transom_device* device, transom_stream** stream) { *stream = new transom_stream(device); }
  static void stream_destroy(transom_stream* stream) { delete stream; }
  static void stream_synchronize(transom_stream* stream) { stream->synchronize(); }
  static void event_create(transom_device* device, transom_event** event) { *event = new transom_event(device); }
  static void event_destroy(transom_event* event) { delete event; }
  static void event_record(transom_event* event, transom_stream* stream) { stream->queue().record(*event->event); }
  static void event_wait(transom_event* event, transom_stream* stream) {
    stream->queue().wait(*event->event);
    stream->issued();
  }
  static void event_query(transom_event* event, int32_t* done) {
    *done = event->device->context->passed(*event->event);
  }
  static void event_synchronize(transom_event* event) {
    event->device->context->synchronize(*event->event);
    event->device->check_watched();
  }
  static void event_elapsed(transom_event* from, transom_event* to, double* seconds) {
    *seconds = from->device->context->seconds_between(*from->event, *to->event);
  }

  // ---- programs

  static int32_t claims(transom_device* device, const char* op, const transom_value* inputs, size_t inputs_count,
                        const transom_attribute* attributes, size_t attributes_count) {
    return claims_composite(device->context->facts(), op, {inputs, inputs_count}, {attributes, attributes_count}) ? 1
                                                                                                                  : 0;
  }
  static void compile(transom_device* device, const transom_graph* graph, transom_executable** executable) {
    *executable = new transom_executable(device, *graph);
  }
  static void executable_destroy(transom_executable* executable) { delete executable; }
  static void run(transom_executable* executable, const transom_launch* launch) { executable->run(*launch); }
  static const char* executable_describe(transom_executable* executable) { return executable->describe(); }

  // ---- recorded launches, where the runtime records them

  static void capture_begin(transom_stream* stream) {
    if (stream->marked.capturing) fail(TRANSOM_INVALID_ARGUMENT, "the stream is being captured already");
    stream->synchronize();  // memory that is freed meanwhile waits for nothing of this stream
    stream->queue().capture_begin();
    stream->marked.capturing = true;
  }
  static void capture_end(transom_stream* stream, transom_capture** capture) {
    if (!stream->marked.capturing) fail(TRANSOM_INVALID_ARGUMENT, "the stream is not being captured");
    stream->marked.capturing = false;
    auto made = std::make_unique<transom_capture>(stream->device);
    made->graph = stream->queue().capture_end();
    *capture = made.release();
  }
  static void capture_replay(transom_capture* capture, transom_stream* stream) {
    stream->queue().replay(*capture->graph);
    stream->issued();
  }
  static void capture_destroy(transom_capture* capture) { delete capture; }

  static void profile(transom_device* device, transom_profile_callback callback, void* user) {
    device->set_profile({callback, user});
  }
  static const char* device_report(transom_device* device) {
    thread_local std::string report;
    report = fmt::format("{{\"kernels_compiled\": {}, \"kernels_read\": {}, \"launches\": {}, \"products\": \"{}\"}}",
                         device->kernels.compiled(), device->kernels.read(), device->launches.load(),
                         device->products ? device->products->name() : "own");
    return report.c_str();
  }
};

}  // namespace

void warn(const std::string& text) {
  if (const auto log = host_log.load()) log(TRANSOM_LOG_WARNING, fmt::format("{}: {}", runtime().name(), text).c_str());
}

}  // namespace transom::gpu

transom_status transom_plugin_open(const transom_host* host, transom_plugin* plugin, transom_error* error) {
  return transom::plugin::open(host, plugin, error, [host](transom_plugin& mine) {
    transom::gpu::host_log = host->log;
    mine.name = transom::gpu::runtime().name();
    mine.version = "1.0";
    mine.priority = transom::gpu::runtime().priority();
    transom::plugin::fill_table<transom::gpu::Table>(mine);
    transom::gpu::runtime().add_collectives(mine);
    if (!transom::gpu::runtime().records()) {
      mine.capture_begin = nullptr;
      mine.capture_end = nullptr;
      mine.capture_replay = nullptr;
      mine.capture_destroy = nullptr;
    }
  });
}
