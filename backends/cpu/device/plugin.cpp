// SPDX-License-Identifier: Apache-2.0
// The table that the host sees.
#include <chrono>
#include <cstring>

#include "cpu/codegen/kernels.h"
#include "cpu/collectives/communicator.h"
#include "cpu/device/device.h"
#include "cpu/device/error.h"
#include "cpu/device/executable.h"
#include "cpu/device/processor.h"
#include "cpu/device/threads.h"

namespace transom::cpu {
namespace {

void require_device(uint32_t index) {
  if (index != 0) fail(TRANSOM_INVALID_ARGUMENT, "expected device 0, the only one, found {}", index);
}

std::byte* checked(transom_binding binding, size_t bytes) {
  if (!binding.buffer) fail(TRANSOM_INVALID_ARGUMENT, "expected a buffer to copy, found none");
  backend::expect_inside(binding, binding.buffer->bytes, bytes);
  return binding.buffer->data + binding.offset;
}

void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr int64_t kGrain = 1 << 20;  // one core does not reach the bandwidth of memory
  parallel_ranges(static_cast<int64_t>(bytes), kGrain, [=](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

void do_or_record(transom_stream* stream, std::function<void()> work) {
  if (stream->recording) {
    stream->recording->work.push_back(std::move(work));
    return;
  }
  stream->wait();  // for a collective that is under way
  work();
}

// Copies to and from the host have no fixed addresses.
void refuse_in_capture(const transom_stream* stream) {
  if (stream->recording) fail(TRANSOM_UNSUPPORTED, "copies to and from the host cannot be captured");
}

// What the table calls; exceptions become a status there.
struct Table {
  // ---- devices

  static void device_count(uint32_t* count) { *count = 1; }

  static void device_describe(uint32_t index, transom_device_properties* properties) {
    require_device(index);
    plugin::hand_over(describe_processor(), properties);
  }

  static void device_open(uint32_t index, transom_device** device) {
    require_device(index);
    *device = new transom_device;
  }

  static void device_close(transom_device* device) { delete device; }

  // ---- memory

  static void buffer_allocate(transom_device* device, size_t bytes, transom_buffer** buffer) {
    auto made = std::make_unique<transom_buffer>();
    made->data = device->allocator.allocate(bytes);
    made->bytes = bytes;
    made->allocator = &device->allocator;
    *buffer = made.release();
  }

  static void buffer_import(transom_device*, const void* data, size_t bytes, transom_buffer** buffer) {
    auto made = std::make_unique<transom_buffer>();
    made->data = static_cast<std::byte*>(const_cast<void*>(data));  // kernels only read what is bound as an input
    made->bytes = bytes;
    *buffer = made.release();
  }

  static void buffer_free(transom_buffer* buffer) { delete buffer; }

  static void* buffer_host_pointer(transom_buffer* buffer) { return buffer->data; }

  static void copy_to_device(transom_stream* stream, const void* from, transom_binding to, size_t bytes) {
    refuse_in_capture(stream);
    stream->wait();
    copy_bytes(checked(to, bytes), static_cast<const std::byte*>(from), bytes);
  }

  static void copy_to_host(transom_stream* stream, transom_binding from, void* to, size_t bytes) {
    refuse_in_capture(stream);
    stream->wait();
    copy_bytes(static_cast<std::byte*>(to), checked(from, bytes), bytes);
  }

  static void copy_on_device(transom_stream* stream, transom_binding from, transom_binding to, size_t bytes) {
    std::byte* target = checked(to, bytes);
    const std::byte* source = checked(from, bytes);
    const bool overlap = source < target + bytes && target < source + bytes;
    do_or_record(stream, [=] {
      if (overlap) std::memmove(target, source, bytes);
      else copy_bytes(target, source, bytes);
    });
  }

  static void memory_statistics(transom_device* device, transom_memory_statistics* statistics) {
    plugin::hand_over(device->allocator.statistics(), statistics);
  }

  static void memory_reset_peak(transom_device* device) { device->allocator.reset_peak(); }

  // ---- streams and events

  static void stream_create(transom_device* device, transom_stream** stream) { *stream = new transom_stream(device); }

  static void stream_destroy(transom_stream* stream) { delete stream; }

  static void stream_synchronize(transom_stream* stream) { stream->wait(); }

  static void event_create(transom_device*, transom_event** event) { *event = new transom_event; }

  static void event_destroy(transom_event* event) { delete event; }

  static void event_record(transom_event* event, transom_stream* stream) {
    event->pending = stream->pending;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    event->nanoseconds = static_cast<uint64_t>(now / std::chrono::nanoseconds(1));
  }

  // The host waits in the stream's place: what comes next is done by its own hands.
  static void event_wait(transom_event* event, transom_stream*) { wait_for(event->pending); }

  static void event_query(transom_event* event, int32_t* done) {
    const bool ready = !event->pending || event->pending->done();
    if (ready) wait_for(event->pending);
    *done = ready ? 1 : 0;
  }

  static void event_synchronize(transom_event* event) { wait_for(event->pending); }

  static void event_elapsed(transom_event* from, transom_event* to, double* seconds) {
    *seconds = static_cast<double>(static_cast<int64_t>(to->nanoseconds - from->nanoseconds)) * 1e-9;
  }

  // ---- programs

  static int32_t claims(transom_device*, const char* op, const transom_value* inputs, size_t inputs_count,
                        const transom_attribute* attributes, size_t attributes_count) {
    return claims_composite(op, inputs, inputs_count, attributes, attributes_count) ? 1 : 0;
  }

  static void compile(transom_device* device, const transom_graph* graph, transom_executable** executable) {
    *executable = new transom_executable(device, *graph);
  }

  static void executable_destroy(transom_executable* executable) { delete executable; }

  static void run(transom_executable* executable, const transom_launch* launch) {
    do_or_record(launch->stream, [prepared = executable->prepare(*launch)] { prepared.run(); });
  }

  static void capture_begin(transom_stream* stream) {
    if (stream->recording) fail(TRANSOM_INVALID_ARGUMENT, "the stream is being captured already");
    stream->recording = std::make_unique<transom_capture>();
  }

  static void capture_end(transom_stream* stream, transom_capture** capture) {
    if (!stream->recording) fail(TRANSOM_INVALID_ARGUMENT, "the stream is not being captured");
    *capture = stream->recording.release();
  }

  static void capture_replay(transom_capture* capture, transom_stream*) {
    for (const std::function<void()>& work : capture->work) work();
  }

  static void capture_destroy(transom_capture* capture) { delete capture; }

  static const char* executable_describe(transom_executable* executable) { return executable->describe(); }

  static void executable_memory(transom_executable* executable, uint64_t* bytes) {
    *bytes = executable->workspace_bytes();
  }

  static void profile(transom_device* device, transom_profile_callback callback, void* user) {
    device->set_profile(callback, user);
  }
};

}  // namespace
}  // namespace transom::cpu

transom_status transom_plugin_open(const transom_host* host, transom_plugin* plugin, transom_error* error) {
  using namespace transom::cpu;
  return transom::plugin::open(host, plugin, error, [&](transom_plugin& mine) {
    isa_limit();  // refuses a word that is none
    the_host = transom::plugin::take_over(*host);
    codegen::stop_compiling_at_exit();  // kernels may be asked for by other threads alone
    if (!the_host.parallel) fail(TRANSOM_UNSUPPORTED, "expected a host that offers its pool of threads, found none");
    mine.name = "cpu";
    mine.version = "1.0";
    mine.priority = 10;
    transom::plugin::fill_table<Table>(mine);
    add_collectives(mine);
  });
}

void transom_buffer_defer(transom_buffer* imported, const transom_deferred* deferred) { imported->deferred = deferred; }
void transom_buffer_defer_parts(transom_buffer* imported, const transom_deferred_parts* parts) {
  imported->deferred_parts = parts;
}
