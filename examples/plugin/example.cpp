// SPDX-License-Identifier: Apache-2.0
// A device outside of Transom's tree, as docs/device-plugins.md builds it up: host memory as the device's memory, and
// the plainest kernels. It claims no composite, so that it sees primitives alone.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "arrays.h"

using namespace example;

// ---- what the handles stand for; each counts itself for memory_statistics

constexpr uint64_t kMemory = uint64_t{1} << 30;
static transom_memory_statistics memory;
struct Handle {
  Handle() { ++memory.handles; }
  ~Handle() { --memory.handles; }
};
struct transom_device {};
struct transom_stream : Handle {
  std::unique_ptr<transom_capture> recording;
};
struct transom_buffer : Handle {
  std::unique_ptr<char, decltype(&std::free)> data{nullptr, std::free};
  size_t bytes = 0;
  ~transom_buffer() { memory.bytes_in_use -= bytes; }
};
struct transom_executable : Handle {
  struct Value {
    int32_t dtype;
    Shape shape;
    int64_t offset;
    size_t bytes;
  };
  struct Step {
    Compute compute;
    Attributes attributes;
    std::vector<int32_t> inputs, outputs;
  };
  std::vector<Value> values;
  std::vector<Step> steps;
  std::vector<int32_t> inputs, outputs;
};
struct transom_capture : Handle {
  std::vector<std::pair<transom_executable*, std::vector<char*>>> launches;  // with the addresses of all values
};

// ---- every failure takes this way: a status, and one line of text

struct Failure {
  transom_status status;
  std::string text;
};
template <typename Body>
static transom_status guarded(transom_error* error, Body&& body) noexcept try {
  body();
  return TRANSOM_OK;
} catch (const Failure& failure) {
  std::snprintf(error->text, sizeof error->text, "example: %s", failure.text.c_str());
  return failure.status;
} catch (const std::exception& exception) {
  std::snprintf(error->text, sizeof error->text, "example: %s", exception.what());
  return dynamic_cast<const std::bad_alloc*>(&exception) ? TRANSOM_OUT_OF_MEMORY : TRANSOM_INTERNAL;
}
static void expect(bool condition, const std::string& text, transom_status status = TRANSOM_INVALID_ARGUMENT) {
  if (!condition) throw Failure{status, text};
}

static char* address(transom_binding place, size_t bytes) {
  if (bytes == 0) return nullptr;
  expect(place.buffer && place.offset <= place.buffer->bytes && bytes <= place.buffer->bytes - place.offset,
         "expected " + std::to_string(bytes) + " bytes inside a buffer, found fewer");
  return place.buffer->data.get() + place.offset;
}
static void copy(void* to, const void* from, size_t bytes) {
  if (bytes) std::memmove(to, from, bytes);
}

// ---- programs

static void read_node(transom_executable& executable, const transom_node& node) {
  transom_executable::Step step{find_operation(node.op), {}, {}, {}};
  expect(step.compute != nullptr, std::string("no kernel for ") + node.op, TRANSOM_UNSUPPORTED);
  for (size_t i = 0; i < node.attributes_count; ++i) {
    const transom_attribute& a = node.attributes[i];
    if (a.kind == TRANSOM_ATTRIBUTE_INT) step.attributes.ints[a.name] = a.int_value;
    if (a.kind == TRANSOM_ATTRIBUTE_FLOAT) step.attributes.floats[a.name] = a.float_value;
    if (a.kind == TRANSOM_ATTRIBUTE_INTS) step.attributes.lists[a.name].assign(a.ints, a.ints + a.ints_count);
  }
  step.inputs.assign(node.inputs, node.inputs + node.inputs_count);
  step.outputs.assign(node.outputs, node.outputs + node.outputs_count);
  for (const auto* list : {&step.inputs, &step.outputs})
    for (const int32_t value : *list)
      expect(value >= 0 && static_cast<size_t>(value) < executable.values.size(),
             "a node names a value that is not there");
  executable.steps.push_back(std::move(step));
}

static void read_graph(transom_executable& executable, const transom_graph& graph) {
  for (size_t i = 0; i < graph.values_count; ++i) {
    const transom_value& value = graph.values[i];
    expect(size_of(value.dtype) != 0, "no elements of type " + std::to_string(value.dtype), TRANSOM_UNSUPPORTED);
    const Shape shape(value.shape, value.shape + value.rank);
    executable.values.push_back({value.dtype, shape, value.arena_offset, size_of(value.dtype) * count_of(shape)});
  }
  // A newer host's nodes may be longer: struct_size is the step from one to the next.
  const char* place = reinterpret_cast<const char*>(graph.nodes);
  for (size_t i = 0; i < graph.nodes_count; ++i, place += reinterpret_cast<const transom_node*>(place)->struct_size)
    read_node(executable, *reinterpret_cast<const transom_node*>(place));
  executable.inputs.assign(graph.inputs, graph.inputs + graph.inputs_count);
  executable.outputs.assign(graph.outputs, graph.outputs + graph.outputs_count);
}

// Where each value lies in this launch.
static std::vector<char*> places_of(const transom_executable& executable, const transom_launch& launch) {
  expect(launch.inputs_count == executable.inputs.size() && launch.outputs_count == executable.outputs.size(),
         "expected as many inputs and outputs as the graph has");
  std::vector<char*> places;
  for (const auto& value : executable.values) {
    const size_t offset = static_cast<size_t>(value.offset);
    places.push_back(value.offset < 0 ? nullptr
                                      : address({launch.arena.buffer, launch.arena.offset + offset}, value.bytes));
  }
  for (size_t i = 0; i < launch.inputs_count; ++i)
    places[executable.inputs[i]] = address(launch.inputs[i], executable.values[executable.inputs[i]].bytes);
  for (size_t i = 0; i < launch.outputs_count; ++i)
    places[executable.outputs[i]] = address(launch.outputs[i], executable.values[executable.outputs[i]].bytes);
  return places;
}

static void compute(const transom_executable& executable, const std::vector<char*>& places) {
  for (const auto& step : executable.steps) {
    Arrays in, out;
    for (const int32_t v : step.inputs)
      in.push_back(load(places[v], executable.values[v].dtype, executable.values[v].shape));
    for (const int32_t v : step.outputs) {
      const auto& value = executable.values[v];
      out.push_back({value.dtype, value.shape, std::vector<Number>(count_of(value.shape))});
    }
    step.compute(in, step.attributes, out);
    // All inputs are read by now: an output may lie where an input was.
    for (size_t i = 0; i < out.size(); ++i) store(out[i], places[step.outputs[i]]);
  }
}

// ---- the table

transom_status transom_plugin_open(const transom_host* host, transom_plugin* plugin, transom_error* error) {
  if (host->major != TRANSOM_PLUGIN_MAJOR)
    return guarded(error, [] { expect(false, "built for another version of the interface", TRANSOM_UNSUPPORTED); });
  transom_plugin mine{};
  mine.struct_size = plugin->struct_size < sizeof mine ? plugin->struct_size : sizeof mine;
  mine.major = TRANSOM_PLUGIN_MAJOR, mine.minor = TRANSOM_PLUGIN_MINOR;
  mine.name = "example", mine.version = "1.0", mine.priority = 0;  // never chosen by itself
  mine.device_count = [](uint32_t* count, transom_error*) { return *count = 1, TRANSOM_OK; };
  mine.device_describe = [](uint32_t index, transom_device_properties* properties, transom_error* error) {
    return guarded(error, [&] {
      expect(index == 0, "there is one device, number 0");
      transom_device_properties mine{};
      mine.struct_size = properties->struct_size < sizeof mine ? properties->struct_size : sizeof mine;
      std::strcpy(mine.name, "example device");
      std::strcpy(mine.architecture, "plain loops");
      mine.flags = TRANSOM_DEVICE_HOST_MEMORY, mine.memory_bytes = kMemory, mine.compute_units = 1;
      std::memcpy(properties, &mine, mine.struct_size);
    });
  };
  mine.device_open = [](uint32_t index, transom_device** device, transom_error* error) {
    return guarded(error, [&] { expect(index == 0, "there is one device, number 0"), *device = new transom_device; });
  };
  mine.device_close = [](transom_device* device) { delete device; };

  mine.buffer_allocate = [](transom_device*, size_t bytes, transom_buffer** buffer, transom_error* error) {
    return guarded(error, [&] {
      expect(bytes <= kMemory - memory.bytes_in_use, "no room for the buffer", TRANSOM_OUT_OF_MEMORY);
      auto made = std::make_unique<transom_buffer>();
      made->data.reset(static_cast<char*>(std::aligned_alloc(64, (bytes + 64) / 64 * 64)));
      if (!made->data) throw std::bad_alloc();
      memory.bytes_in_use += made->bytes = bytes;
      if (memory.peak_bytes_in_use < memory.bytes_in_use) memory.peak_bytes_in_use = memory.bytes_in_use;
      ++memory.allocations;
      *buffer = made.release();
    });
  };
  mine.buffer_free = [](transom_buffer* buffer) { delete buffer; };
  mine.buffer_host_pointer = [](transom_buffer* buffer) -> void* { return buffer->data.get(); };
  mine.copy_to_device = [](transom_stream*, const void* from, transom_binding to, size_t bytes, transom_error* error) {
    return guarded(error, [&] { copy(address(to, bytes), from, bytes); });
  };
  mine.copy_to_host = [](transom_stream*, transom_binding from, void* to, size_t bytes, transom_error* error) {
    return guarded(error, [&] { copy(to, address(from, bytes), bytes); });
  };
  mine.copy_on_device = [](transom_stream*, transom_binding from, transom_binding to, size_t bytes,
                           transom_error* error) {
    return guarded(error, [&] { copy(address(to, bytes), address(from, bytes), bytes); });
  };
  mine.memory_statistics = [](transom_device*, transom_memory_statistics* statistics, transom_error*) {
    memory.bytes_limit = kMemory;
    memory.struct_size = statistics->struct_size < sizeof memory ? statistics->struct_size : sizeof memory;
    std::memcpy(statistics, &memory, memory.struct_size);
    return TRANSOM_OK;
  };

  mine.stream_create = [](transom_device*, transom_stream** stream, transom_error* error) {
    return guarded(error, [&] { *stream = new transom_stream; });
  };
  mine.stream_destroy = [](transom_stream* stream) { delete stream; };
  mine.stream_synchronize = [](transom_stream*, transom_error*) {
    return TRANSOM_OK;
  };  // all work is done in the calls

  mine.claims = [](transom_device*, const char*, const transom_value*, size_t, const transom_attribute*, size_t) {
    return 0;
  };
  mine.compile = [](transom_device*, const transom_graph* graph, transom_executable** executable,
                    transom_error* error) {
    return guarded(error, [&] {
      auto made = std::make_unique<transom_executable>();
      read_graph(*made, *graph);
      *executable = made.release();
    });
  };
  mine.executable_destroy = [](transom_executable* executable) { delete executable; };
  mine.run = [](transom_executable* executable, const transom_launch* launch, transom_error* error) {
    return guarded(error, [&] {
      std::vector<char*> places = places_of(*executable, *launch);
      if (auto& recording = launch->stream->recording) recording->launches.emplace_back(executable, std::move(places));
      else compute(*executable, places);
    });
  };

  mine.capture_begin = [](transom_stream* stream, transom_error* error) {
    return guarded(error, [&] { stream->recording = std::make_unique<transom_capture>(); });
  };
  mine.capture_end = [](transom_stream* stream, transom_capture** capture, transom_error* error) {
    return guarded(error, [&] {
      expect(stream->recording != nullptr, "the stream is not being captured");
      *capture = stream->recording.release();
    });
  };
  mine.capture_replay = [](transom_capture* capture, transom_stream*, transom_error* error) {
    return guarded(error, [&] {
      for (const auto& [executable, places] : capture->launches) compute(*executable, places);
    });
  };
  mine.capture_destroy = [](transom_capture* capture) { delete capture; };
  std::memcpy(plugin, &mine, mine.struct_size);
  return TRANSOM_OK;
}
