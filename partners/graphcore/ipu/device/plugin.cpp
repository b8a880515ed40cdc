// SPDX-License-Identifier: Apache-2.0
// The table that the host sees.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <poplar/DeviceManager.hpp>

#include "ipu/device/clocks.h"
#include "ipu/device/collectives.h"
#include "ipu/device/device.h"
#include "ipu/device/executable.h"
#include "ipu/device/ipu_config.h"
#include "ipu/device/settings.h"
#include "ipu/lowering/lowering.h"
#include "transom/plugin/error.h"

namespace transom::ipu {
namespace {

using backend::fail;

transom_host the_host{};

// One device is one IPU, or, where the configuration says so, the IPUs of a replica. The look-alike travels in the
// plugin: it is there where somebody asks for it.
std::vector<poplar::Device> machines() {
  if (const char* asked = std::getenv("TRANSOM_EMULATED_IPU"); is_emulated() && !(asked && *asked))
    fail(TRANSOM_UNAVAILABLE,
         "this plugin was built without Poplar's SDK and sees no IPU; TRANSOM_EMULATED_IPU=bow:4 emulates four");
  try {
    return poplar::DeviceManager::createDeviceManager().getDevices(poplar::TargetType::IPU,
                                                                   ipu_config().ipus_per_replica);
  } catch (const poplar::poplar_error& error) {
    fail(TRANSOM_UNAVAILABLE, "{}", error.what());
  }
}

poplar::Device machine(uint32_t index) {
  const auto all = machines();
  if (index >= all.size()) fail(TRANSOM_INVALID_ARGUMENT, "expected a device below {}, found {}", all.size(), index);
  return all[index];
}

// TRANSOM_LOG=memory: what the tiles hold is told of each program.
bool tells_memory() {
  const char* set = std::getenv("TRANSOM_LOG");
  const std::string topics = fmt::format(",{},", set ? set : "");
  return topics.find(",memory,") != topics.npos || topics.find(",all,") != topics.npos;
}

struct Table {
  // ---- devices

  static void device_count(uint32_t* count) { *count = static_cast<uint32_t>(machines().size()); }

  static void settings(const char* request, void (*answer)(void* context, const char* text), void* context) {
    const auto replicas = [] {
      try {
        return static_cast<int64_t>(machines().size());
      } catch (const plugin::Failure&) {
        return int64_t{0};
      }
    };
    answer(context, settings_of(request, replicas).c_str());
  }

  static void device_describe(uint32_t index, transom_device_properties* properties) {
    const poplar::Target target = machine(index).getTarget();
    const std::string generation = target.getTargetArchString();
    transom_device_properties mine{};
    std::snprintf(mine.name, sizeof mine.name, "%s", generation == "bow" ? "Graphcore Bow IPU" : "Graphcore Mk2 IPU");
    std::snprintf(mine.architecture, sizeof mine.architecture, "%s", generation.c_str());
    std::snprintf(mine.driver, sizeof mine.driver, "%s",
                  !is_emulated()   ? "Poplar"
                  : clocks_alone() ? "emulated: clocks alone, all values are zero"
                                   : "emulated: a look-alike of Poplar and PopLibs");
    mine.flags = TRANSOM_DEVICE_PLANS_MEMORY | TRANSOM_DEVICE_STATIC_SHAPES;
    if (is_emulated()) mine.flags |= TRANSOM_DEVICE_EMULATED;
    mine.memory_bytes = uint64_t{target.getNumTiles()} * target.getBytesPerTile();
    mine.compute_units = target.getNumTiles();
    mine.fast_dtypes = 1u << TRANSOM_FLOAT16;
    plugin::hand_over(mine, properties);
  }

  static void device_open(uint32_t index, transom_device** device) {
    *device = new transom_device(machine(index));
    if (clocks_alone() && the_host.log)
      the_host.log(TRANSOM_LOG_WARNING, "ipu: emulated clocks alone: nothing is computed, all values are zero");
  }
  static void device_close(transom_device* device) { delete device; }

  // ---- memory

  static void buffer_allocate(transom_device* device, size_t bytes, transom_buffer** buffer) {
    *buffer = new transom_buffer(device, bytes);
  }
  static void buffer_free(transom_buffer* buffer) { delete buffer; }

  static void copy_to_device(transom_stream* stream, const void* from, transom_binding to, size_t bytes) {
    refuse_in_capture(stream);
    std::byte* target = transom_buffer::at(to, bytes);
    if (bytes == 0) return;
    to.buffer->renew();
    std::memcpy(target, from, bytes);
    to.buffer->renew();
  }
  static void copy_to_host(transom_stream* stream, transom_binding from, void* to, size_t bytes) {
    refuse_in_capture(stream);
    if (const std::byte* source = transom_buffer::at(from, bytes); bytes) std::memcpy(to, source, bytes);
  }
  static void copy_on_device(transom_stream* stream, transom_binding from, transom_binding to, size_t bytes) {
    std::byte* target = transom_buffer::at(to, bytes);
    const std::byte* source = transom_buffer::at(from, bytes);
    if (bytes == 0) return;
    stream->issue([=, buffer = to.buffer] {
      buffer->renew();
      std::memmove(target, source, bytes);
      buffer->renew();
    });
  }
  static void memory_statistics(transom_device* device, transom_memory_statistics* statistics) {
    transom_memory_statistics mine{};
    mine.bytes_in_use = device->in_use;
    mine.peak_bytes_in_use = device->peak;
    mine.bytes_limit = device->memory_limit;
    mine.allocations = device->allocations;
    mine.handles = Handle::live;
    plugin::hand_over(mine, statistics);
  }
  static void memory_reset_peak(transom_device* device) { device->peak = device->in_use.load(); }

  // ---- streams and events: all work is done within the calls

  static void stream_create(transom_device* device, transom_stream** stream) { *stream = new transom_stream(device); }
  static void stream_destroy(transom_stream* stream) { delete stream; }
  static void stream_synchronize(transom_stream*) {}
  static void event_create(transom_device* device, transom_event** event) { *event = new transom_event(device); }
  static void event_destroy(transom_event* event) { delete event; }
  static void event_record(transom_event* event, transom_stream*) {
    event->seconds =
        static_cast<double>(event->device->cycles.load()) / event->device->machine.getTarget().getTileClockFrequency();
  }
  static void event_wait(transom_event*, transom_stream*) {}
  static void event_query(transom_event*, int32_t* done) { *done = 1; }
  static void event_synchronize(transom_event*) {}
  static void event_elapsed(transom_event* from, transom_event* to, double* seconds) {
    *seconds = to->seconds - from->seconds;
  }

  // ---- programs

  static int32_t claims(transom_device*, const char* op, const transom_value* inputs, size_t inputs_count,
                        const transom_attribute* attributes, size_t attributes_count) {
    return claims_composite(op, {inputs, inputs_count}, {attributes, attributes_count}) ? 1 : 0;
  }
  static void compile(transom_device* device, const transom_graph* graph, transom_executable** executable) {
    Messages messages{[](const std::string& text) {
                        if (the_host.log) the_host.log(TRANSOM_LOG_WARNING, ("ipu: " + text).c_str());
                      },
                      {}};
    if (the_host.log && tells_memory())
      messages.memory = [](const std::string& text) { the_host.log(TRANSOM_LOG_INFO, ("ipu: " + text).c_str()); };
    *executable = new transom_executable(device, *graph, std::move(messages));
  }
  static void executable_destroy(transom_executable* executable) { delete executable; }
  static void run(transom_executable* executable, const transom_launch* launch) {
    if (!launch->stream->recording) return executable->run(*launch);
    struct Recorded {
      transom_launch launch;
      std::vector<transom_binding> inputs, outputs;
    };
    auto recorded = std::make_shared<Recorded>(Recorded{plugin::take_over(*launch),
                                                        {launch->inputs, launch->inputs + launch->inputs_count},
                                                        {launch->outputs, launch->outputs + launch->outputs_count}});
    recorded->launch.inputs = recorded->inputs.data();
    recorded->launch.outputs = recorded->outputs.data();
    launch->stream->issue([executable, recorded] { executable->run(recorded->launch); });
  }
  static const char* executable_describe(transom_executable* executable) { return executable->describe(); }

  static int32_t supports(transom_device* device, const transom_graph* node) {
    const std::string text = graph_text(*node, false);
    {
      const std::lock_guard lock(device->supported_mutex);
      if (const auto found = device->supported.find(text); found != device->supported.end()) return found->second;
    }
    const bool supported = supports_node(device->machine.getTarget(), *node);
    const std::lock_guard lock(device->supported_mutex);
    device->supported.emplace(text, supported);
    return supported ? 1 : 0;
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
    for (const auto& work : capture->work) work();
  }
  static void capture_destroy(transom_capture* capture) { delete capture; }

  static void profile(transom_device* device, transom_profile_callback callback, void* user) {
    device->set_profile({callback, user});
  }
  static const char* device_report(transom_device* device) {
    thread_local std::string text;
    text = report(*device);
    return text.c_str();
  }

 private:
  static void refuse_in_capture(const transom_stream* stream) {
    if (stream->recording) fail(TRANSOM_UNSUPPORTED, "copies to and from the host cannot be captured");
  }
};

}  // namespace
}  // namespace transom::ipu

transom_status transom_plugin_open(const transom_host* host, transom_plugin* plugin, transom_error* error) {
  return transom::plugin::open(host, plugin, error, [&](transom_plugin& mine) {
    transom::ipu::the_host = transom::plugin::take_over(*host);
    mine.name = "ipu";
    mine.version = "1.0";
    mine.priority = transom::ipu::is_emulated() ? 0 : 100;  // an emulator is never chosen by itself
    transom::plugin::fill_table<transom::ipu::Table>(mine);
    transom::ipu::add_collectives(mine);
  });
}
