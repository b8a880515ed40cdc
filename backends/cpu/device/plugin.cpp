// SPDX-License-Identifier: Apache-2.0
// The table that the host sees. Each function is one line of work inside `guarded`, which turns exceptions into a
// status.
#include <chrono>
#include <cstring>

#include "cpu/collectives/communicator.h"
#include "cpu/device/device.h"
#include "cpu/device/error.h"
#include "cpu/device/executable.h"
#include "cpu/device/threads.h"

namespace transom::cpu {
namespace {

void require_device(uint32_t index) {
  if (index != 0) fail(TRANSOM_INVALID_ARGUMENT, "expected device 0, the only one, found {}", index);
}

std::byte* checked(transom_binding binding, size_t bytes) {
  if (!binding.buffer) fail(TRANSOM_INVALID_ARGUMENT, "expected a buffer to copy, found none");
  if (binding.offset > binding.buffer->bytes || bytes > binding.buffer->bytes - binding.offset)
    fail(TRANSOM_INVALID_ARGUMENT, "expected a copy inside the buffer of {} bytes, found {} bytes at {}",
         binding.buffer->bytes, bytes, binding.offset);
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

// ---- devices

transom_status device_count(uint32_t* count, transom_error*) {
  *count = 1;
  return TRANSOM_OK;
}

transom_status device_describe(uint32_t index, transom_device_properties* properties, transom_error* error) {
  return guarded(error, [&] {
    require_device(index);
    plugin::hand_over(describe_processor(), properties);
  });
}

transom_status device_open(uint32_t index, transom_device** device, transom_error* error) {
  return guarded(error, [&] {
    require_device(index);
    *device = new transom_device;
  });
}

void device_close(transom_device* device) { delete device; }

// ---- memory

transom_status buffer_allocate(transom_device* device, size_t bytes, transom_buffer** buffer, transom_error* error) {
  return guarded(error, [&] {
    auto made = std::make_unique<transom_buffer>();
    made->data = device->allocator.allocate(bytes);
    made->bytes = bytes;
    made->allocator = &device->allocator;
    *buffer = made.release();
  });
}

transom_status buffer_import(transom_device*, const void* data, size_t bytes, transom_buffer** buffer,
                             transom_error* error) {
  return guarded(error, [&] {
    auto made = std::make_unique<transom_buffer>();
    made->data = static_cast<std::byte*>(const_cast<void*>(data));  // kernels only read what is bound as an input
    made->bytes = bytes;
    *buffer = made.release();
  });
}

void buffer_free(transom_buffer* buffer) { delete buffer; }

void* buffer_host_pointer(transom_buffer* buffer) { return buffer->data; }

transom_status copy_to_device(transom_stream* stream, const void* from, transom_binding to, size_t bytes,
                              transom_error* error) {
  return guarded(error, [&] {
    refuse_in_capture(stream);
    stream->wait();
    copy_bytes(checked(to, bytes), static_cast<const std::byte*>(from), bytes);
  });
}

transom_status copy_to_host(transom_stream* stream, transom_binding from, void* to, size_t bytes,
                            transom_error* error) {
  return guarded(error, [&] {
    refuse_in_capture(stream);
    stream->wait();
    copy_bytes(static_cast<std::byte*>(to), checked(from, bytes), bytes);
  });
}

transom_status copy_on_device(transom_stream* stream, transom_binding from, transom_binding to, size_t bytes,
                              transom_error* error) {
  return guarded(error, [&] {
    std::byte* target = checked(to, bytes);
    const std::byte* source = checked(from, bytes);
    const bool overlap = source < target + bytes && target < source + bytes;
    do_or_record(stream, [=] {
      if (overlap) std::memmove(target, source, bytes);
      else copy_bytes(target, source, bytes);
    });
  });
}

transom_status memory_statistics(transom_device* device, transom_memory_statistics* statistics, transom_error* error) {
  return guarded(error, [&] { plugin::hand_over(device->allocator.statistics(), statistics); });
}

transom_status memory_reset_peak(transom_device* device, transom_error* error) {
  return guarded(error, [&] { device->allocator.reset_peak(); });
}

// ---- streams and events

transom_status stream_create(transom_device* device, transom_stream** stream, transom_error* error) {
  return guarded(error, [&] { *stream = new transom_stream(device); });
}

void stream_destroy(transom_stream* stream) { delete stream; }

transom_status stream_synchronize(transom_stream* stream, transom_error* error) {
  return guarded(error, [&] { stream->wait(); });
}

transom_status event_create(transom_device*, transom_event** event, transom_error* error) {
  return guarded(error, [&] { *event = new transom_event; });
}

void event_destroy(transom_event* event) { delete event; }

transom_status event_record(transom_event* event, transom_stream* stream, transom_error*) {
  event->pending = stream->pending;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  event->nanoseconds = static_cast<uint64_t>(now / std::chrono::nanoseconds(1));
  return TRANSOM_OK;
}

// The host waits in the stream's place: what comes next is done by its own hands.
transom_status event_wait(transom_event* event, transom_stream*, transom_error* error) {
  return guarded(error, [&] { wait_for(event->pending); });
}

transom_status event_query(transom_event* event, int32_t* done, transom_error* error) {
  return guarded(error, [&] {
    const bool ready = !event->pending || event->pending->done();
    if (ready) wait_for(event->pending);
    *done = ready ? 1 : 0;
  });
}

transom_status event_synchronize(transom_event* event, transom_error* error) {
  return guarded(error, [&] { wait_for(event->pending); });
}

transom_status event_elapsed(transom_event* from, transom_event* to, double* seconds, transom_error*) {
  *seconds = static_cast<double>(static_cast<int64_t>(to->nanoseconds - from->nanoseconds)) * 1e-9;
  return TRANSOM_OK;
}

// ---- programs

int32_t claims(transom_device*, const char* op, const transom_value* inputs, size_t inputs_count,
               const transom_attribute* attributes, size_t attributes_count) {
  return claims_composite(op, inputs, inputs_count, attributes, attributes_count) ? 1 : 0;
}

transom_status compile(transom_device* device, const transom_graph* graph, transom_executable** executable,
                       transom_error* error) {
  return guarded(error, [&] { *executable = new transom_executable(device, *graph); });
}

void executable_destroy(transom_executable* executable) { delete executable; }

transom_status run(transom_executable* executable, const transom_launch* launch, transom_error* error) {
  return guarded(error,
                 [&] { do_or_record(launch->stream, [prepared = executable->prepare(*launch)] { prepared.run(); }); });
}

transom_status capture_begin(transom_stream* stream, transom_error* error) {
  return guarded(error, [&] {
    if (stream->recording) fail(TRANSOM_INVALID_ARGUMENT, "the stream is being captured already");
    stream->recording = std::make_unique<transom_capture>();
  });
}

transom_status capture_end(transom_stream* stream, transom_capture** capture, transom_error* error) {
  return guarded(error, [&] {
    if (!stream->recording) fail(TRANSOM_INVALID_ARGUMENT, "the stream is not being captured");
    *capture = stream->recording.release();
  });
}

transom_status capture_replay(transom_capture* capture, transom_stream*, transom_error* error) {
  return guarded(error, [&] {
    for (const std::function<void()>& work : capture->work) work();
  });
}

void capture_destroy(transom_capture* capture) { delete capture; }

const char* executable_describe(transom_executable* executable) { return executable->describe(); }

transom_status profile(transom_device* device, transom_profile_callback callback, void* user, transom_error* error) {
  return guarded(error, [&] { device->set_profile(callback, user); });
}

}  // namespace
}  // namespace transom::cpu

transom_status transom_plugin_open(const transom_host* host, transom_plugin* plugin, transom_error* error) {
  using namespace transom::cpu;
  return transom::plugin::open(host, plugin, error, [&](transom_plugin& mine) {
    the_host = transom::plugin::take_over(*host);
    if (!the_host.parallel) fail(TRANSOM_UNSUPPORTED, "expected a host that offers its pool of threads, found none");
    mine.name = "cpu";
    mine.version = "1.0";
    mine.priority = 10;
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
    mine.capture_begin = capture_begin;
    mine.capture_end = capture_end;
    mine.capture_replay = capture_replay;
    mine.capture_destroy = capture_destroy;
    mine.profile = profile;
    mine.event_query = event_query;
    mine.event_synchronize = event_synchronize;
    add_collectives(mine);
    mine.memory_reset_peak = memory_reset_peak;
  });
}
