// SPDX-License-Identifier: Apache-2.0
// The table that the host sees.
#include <cstdio>
#include <cstring>
#include <new>

#include "hpu/device/collectives.h"
#include "hpu/device/device.h"
#include "hpu/device/executable.h"
#include "hpu/device/guarded.h"
#include "hpu/device/host.h"
#include "hpu/device/launch.h"
#include "hpu/device/settings.h"
#include "hpu/lowering/lowering.h"
#include "hpu/recipe/recipe_cache.h"

using namespace transom::hpu;
using transom::plugin::hand_over;

namespace {

void check(const transom_binding& binding, size_t bytes) {
  if (!binding.buffer) fail(TRANSOM_INVALID_ARGUMENT, "expected a buffer to copy, found none");
  transom::backend::expect_inside(binding, binding.buffer->bytes, bytes);
}

// Copies to and from the host have no fixed addresses.
void refuse_in_capture(const transom_stream* stream) {
  if (stream->recording) fail(TRANSOM_UNSUPPORTED, "copies to and from the host cannot be captured");
}

void do_or_record(transom_stream* stream, std::function<void(transom_stream&)> work) {
  if (stream->recording) stream->recording->work.push_back(std::move(work));
  else work(*stream);
}

synModuleId module_of(const SynapseLibrary& library, uint32_t index) {
  const std::vector<synModuleId> modules = visible_modules(library);
  if (index >= modules.size())
    fail(TRANSOM_INVALID_ARGUMENT, "expected a device below {}, found {}", modules.size(), index);
  return modules[index];
}

// Whether all that the event stands for is done; asks, or waits.
bool passed(transom_event* event, bool wait) {
  const std::lock_guard lock(event->device->mutex);
  if (wait) {
    event->device->wait(event->after, event);
    return true;
  }
  if (!event->device->lanes->query(event->after)) return false;
  event->device->finish_copies();
  return true;
}

struct Table : Guard {
  // ---- devices

  static void device_count(uint32_t* count) {
    *count = static_cast<uint32_t>(visible_modules(*SynapseLibrary::open()).size());
  }

  static void device_describe(uint32_t index, transom_device_properties* properties) {
    const auto library = SynapseLibrary::open();
    hand_over(describe_module(*library, module_of(*library, index)), properties);
  }

  static void device_open(uint32_t index, transom_device** device) {
    const auto library = SynapseLibrary::open();
    *device = new transom_device(library, module_of(*library, index));
  }

  static void device_close(transom_device* device) { delete device; }

  // ---- memory

  static void buffer_allocate(transom_device* device, size_t bytes, transom_buffer** buffer) {
    auto made = std::make_unique<transom_buffer>(device);
    made->bytes = bytes;
    const std::lock_guard lock(device->mutex);
    made->block = device->memory->allocate(bytes);
    *buffer = made.release();
  }

  static void buffer_free(transom_buffer* buffer) {
    if (!buffer) return;
    {
      const std::lock_guard lock(buffer->device->mutex);
      buffer->device->memory->free(std::move(buffer->block));
    }
    delete buffer;
  }

  static void copy_to_device(transom_stream* stream, const void* from, transom_binding to, size_t bytes) {
    refuse_in_capture(stream);
    check(to, bytes);
    if (bytes == 0) return;
    const bool whole = to.offset == 0 && bytes == to.buffer->bytes;
    if (whole) to.buffer->too_wide.reset();
    if (to.offset % sizeof(int64_t) == 0 && bytes % sizeof(int64_t) == 0)
      if (const auto found = first_too_wide(from, bytes / sizeof(int64_t)))
        to.buffer->too_wide = {found->first + to.offset / sizeof(int64_t), found->second};
    const std::lock_guard lock(stream->device->mutex);
    stream->add(Lane::kIn, stream->device->copy_in(from, *to.buffer->block, to.offset, bytes));
  }

  static void copy_to_host(transom_stream* stream, transom_binding from, void* to, size_t bytes) {
    refuse_in_capture(stream);
    check(from, bytes);
    if (bytes == 0) return;
    const std::lock_guard lock(stream->device->mutex);
    stream->add(Lane::kOut, stream->device->copy_out(*from.buffer->block, from.offset, to, bytes, stream));
  }

  static void copy_on_device(transom_stream* stream, transom_binding from, transom_binding to, size_t bytes) {
    check(from, bytes);
    check(to, bytes);
    if (bytes == 0) return;
    do_or_record(stream, [=](transom_stream& queue) {
      to.buffer->too_wide = from.buffer->too_wide;
      const std::lock_guard lock(queue.device->mutex);
      queue.add(Lane::kCompute,
                queue.device->copy_across(*from.buffer->block, from.offset, *to.buffer->block, to.offset, bytes));
    });
  }

  static void memory_statistics(transom_device* device, transom_memory_statistics* statistics) {
    const std::lock_guard lock(device->mutex);
    transom_memory_statistics mine = device->memory->statistics();
    mine.handles = device->handles;
    hand_over(mine, statistics);
  }

  static void memory_reset_peak(transom_device* device) {
    const std::lock_guard lock(device->mutex);
    device->memory->reset_peak();
  }

  static void host_allocate(transom_device* device, size_t bytes, void** memory) {
    const SynapseLibrary& library = device->library();
    void* made = nullptr;
    library.expect(library.synHostMalloc(device->id(), std::max<size_t>(bytes, 1), 0, &made),
                   "allocating pinned host memory");
    const std::lock_guard lock(device->mutex);
    device->pinned[made] = bytes;
    *memory = made;
  }

  static void host_free(transom_device* device, void* memory) {
    if (!memory) return;
    const std::lock_guard lock(device->mutex);
    device->pinned.erase(memory);
    device->library().synHostFree(device->id(), memory, 0);
  }

  // ---- streams and events

  static void stream_create(transom_device* device, transom_stream** stream) { *stream = new transom_stream(device); }

  static void stream_destroy(transom_stream* stream) { delete stream; }

  static void stream_synchronize(transom_stream* stream) {
    const std::lock_guard lock(stream->device->mutex);
    stream->device->wait(stream->issued, stream);
  }

  static void event_create(transom_device* device, transom_event** event) {
    auto made = std::make_unique<transom_event>(device);
    device->library().expect(device->library().synEventCreate(&made->time, device->id(), EVENT_COLLECT_TIME),
                             "creating an event");
    *event = made.release();
  }

  static void event_destroy(transom_event* event) { delete event; }

  static void event_record(transom_event* event, transom_stream* stream) {
    transom_device& device = *event->device;
    const std::lock_guard lock(device.mutex);
    device.library().expect(device.library().synEventRecord(event->time, device.lanes->stream(Lane::kCompute)),
                            "recording an event");
    event->after = stream->issued;
  }

  static void event_wait(transom_event* event, transom_stream*) {
    const std::lock_guard lock(event->device->mutex);
    event->device->lanes->order_after(event->after);
  }

  static void event_query(transom_event* event, int32_t* done) { *done = passed(event, false) ? 1 : 0; }

  static void event_synchronize(transom_event* event) { passed(event, true); }

  static void event_elapsed(transom_event* from, transom_event* to, double* seconds) {
    const SynapseLibrary& library = from->device->library();
    uint64_t nanoseconds = 0;
    library.expect(library.synEventSynchronize(to->time), "waiting for an event");
    library.expect(library.synEventElapsedTime(&nanoseconds, from->time, to->time), "reading the time of events");
    *seconds = static_cast<double>(nanoseconds) * 1e-9;
  }

  // ---- programs

  static int32_t claims(transom_device* device, const char* op, const transom_value* inputs, size_t inputs_count,
                        const transom_attribute* attributes, size_t attributes_count) {
    return claims_composite(op, {inputs, inputs_count}, {attributes, attributes_count}, device->type()) ? 1 : 0;
  }

  static void compile(transom_device* device, const transom_graph* graph, transom_executable** executable) {
    *executable = new transom_executable(device, *graph);
  }

  static void executable_destroy(transom_executable* executable) { delete executable; }

  static void run(transom_executable* executable, const transom_launch* launch) {
    do_or_record(launch->stream, [executable, prepared = executable->prepare(*launch)](transom_stream& stream) {
      executable->run(*prepared, stream);
    });
  }

  static const char* executable_describe(transom_executable* executable) { return executable->describe(); }

  static void executable_memory(transom_executable* executable, uint64_t* bytes) {
    *bytes = executable->temporary_bytes();
  }

  static void capture_begin(transom_stream* stream) {
    if (stream->recording) fail(TRANSOM_INVALID_ARGUMENT, "the stream is being captured already");
    stream->recording = std::make_unique<transom_capture>(stream->device);
  }

  static void capture_end(transom_stream* stream, transom_capture** capture) {
    if (!stream->recording) fail(TRANSOM_INVALID_ARGUMENT, "the stream is not being captured");
    *capture = stream->recording.release();
  }

  static void capture_replay(transom_capture* capture, transom_stream* stream) {
    for (const auto& work : capture->work) work(*stream);
  }

  static void capture_destroy(transom_capture* capture) { delete capture; }

  // Of a lost device, too.
  static transom_status profile(transom_device* device, transom_profile_callback callback, void* user, transom_error*) {
    device->set_profile(callback, user);
    return TRANSOM_OK;
  }

  static void settings(const char* request, void (*answer)(void* context, const char* text), void* context) {
    answer(context, settings_of(request).c_str());
  }

  static const char* device_report(transom_device* device) {
    thread_local std::string text;
    try {
      text = device->report();
    } catch (const std::exception&) {
      return "{}";
    }
    return text.c_str();
  }
};

}  // namespace

transom_status transom_plugin_open(const transom_host* host, transom_plugin* plugin, transom_error* error) {
  return transom::plugin::open(host, plugin, error, [&](transom_plugin& mine) {
    set_host(transom::plugin::take_over(*host));
    mine.name = "hpu";
    mine.version = "1.0";
    mine.priority = 110;  // before other accelerators
    transom::plugin::fill_table<Table>(mine);
    add_collectives(mine);
  });
}
