// SPDX-License-Identifier: Apache-2.0
// A device that is not the host: the cpu's, whose buffers cannot be looked into, and whose copies from the host are
// made as late as the interface allows: when something is run, read or waited for. device_report counts.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "transom/device_plugin.hpp"

namespace {

transom_plugin cpu{};

struct Copy {
  transom_stream* stream;
  const void* from;
  transom_binding to;
  size_t bytes;
};

struct Counts {
  int uploads = 0, synchronizations = 0, reads = 0, pinned = 0;
};

std::mutex mutex;
std::vector<Copy> late;
std::map<transom_event*, size_t> waits_for;  // copies that had been issued when it was recorded
size_t issued = 0, made = 0;
Counts counts;

transom_status make_copies(transom_error* error) {
  const std::lock_guard lock(mutex);
  for (const Copy& copy : late)
    if (const transom_status status = cpu.copy_to_device(copy.stream, copy.from, copy.to, copy.bytes, error);
        status != TRANSOM_OK)
      return status;
  made += late.size();
  late.clear();
  return TRANSOM_OK;
}

struct Distant {
  static transom_status device_describe(uint32_t index, transom_device_properties* properties, transom_error* error) {
    const transom_status status = cpu.device_describe(index, properties, error);
    properties->flags &= ~uint64_t{TRANSOM_DEVICE_HOST_MEMORY};
    return status;
  }
  static transom_status copy_to_device(transom_stream* stream, const void* from, transom_binding to, size_t bytes,
                                       transom_error*) {
    const std::lock_guard lock(mutex);
    late.push_back({stream, from, to, bytes});
    ++issued;
    ++counts.uploads;
    return TRANSOM_OK;
  }
  static transom_status copy_to_host(transom_stream* stream, transom_binding from, void* to, size_t bytes,
                                     transom_error* error) {
    ++counts.reads;
    const transom_status status = make_copies(error);
    return status == TRANSOM_OK ? cpu.copy_to_host(stream, from, to, bytes, error) : status;
  }
  static transom_status copy_on_device(transom_stream* stream, transom_binding from, transom_binding to, size_t bytes,
                                       transom_error* error) {
    const transom_status status = make_copies(error);
    return status == TRANSOM_OK ? cpu.copy_on_device(stream, from, to, bytes, error) : status;
  }
  static transom_status stream_synchronize(transom_stream* stream, transom_error* error) {
    ++counts.synchronizations;
    const transom_status status = make_copies(error);
    return status == TRANSOM_OK ? cpu.stream_synchronize(stream, error) : status;
  }
  static transom_status run(transom_executable* executable, const transom_launch* launch, transom_error* error) {
    const transom_status status = make_copies(error);
    return status == TRANSOM_OK ? cpu.run(executable, launch, error) : status;
  }
  static void buffer_free(transom_buffer* buffer) {
    // Work that is queued is carried out all the same.
    transom_error ignored{};
    make_copies(&ignored);
    cpu.buffer_free(buffer);
  }
  static transom_status event_record(transom_event* event, transom_stream* stream, transom_error* error) {
    const std::lock_guard lock(mutex);
    waits_for[event] = issued;
    return cpu.event_record(event, stream, error);
  }
  static transom_status event_query(transom_event* event, int32_t* done, transom_error*) {
    const std::lock_guard lock(mutex);
    *done = waits_for[event] <= made;
    return TRANSOM_OK;
  }
  static transom_status event_synchronize(transom_event*, transom_error* error) { return make_copies(error); }
  static transom_status host_allocate(transom_device*, size_t bytes, void** memory, transom_error*) {
    ++counts.pinned;
    *memory = std::malloc(bytes);
    return TRANSOM_OK;
  }
  static void host_free(transom_device*, void* memory) {
    std::memset(memory, 0xEE, 1);  // what is still to be read from it is seen to be wrong
    std::free(memory);
  }
  static const char* device_report(transom_device*) {
    static thread_local char text[200];
    std::snprintf(text, sizeof text, R"({"uploads": %d, "synchronizations": %d, "reads": %d, "pinned": %d})",
                  counts.uploads, counts.synchronizations, counts.reads, counts.pinned);
    return text;
  }
};

}  // namespace

extern "C" TRANSOM_PLUGIN_EXPORT transom_status transom_plugin_open(const transom_host* host, transom_plugin* plugin,
                                                                    transom_error* error) {
  void* library = dlopen(CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  const auto open =
      library ? reinterpret_cast<transom_plugin_open_function>(dlsym(library, "transom_plugin_open")) : nullptr;
  if (!open) {
    std::strcpy(error->text, "the cpu's plugin is not where it was built");
    return TRANSOM_UNAVAILABLE;
  }
  cpu.struct_size = sizeof cpu;
  if (const transom_status status = open(host, &cpu, error); status != TRANSOM_OK) return status;
  return transom::plugin::open(host, plugin, error, [](transom_plugin& mine) {
    mine = cpu;
    mine.name = "distant";
    mine.priority = 0;
    mine.buffer_host_pointer = nullptr;
    mine.buffer_import = nullptr;
    mine.capture_begin = nullptr, mine.capture_end = nullptr;
    mine.capture_replay = nullptr, mine.capture_destroy = nullptr;
    transom::plugin::fill_table<Distant>(mine);
  });
}
