// SPDX-License-Identifier: Apache-2.0
// A device outside of Transom's tree, as docs/device-plugins.md builds it up: host memory as the device's memory, and
// the plainest kernels. It claims no composite, so that it sees primitives alone.
#include <cstdlib>

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
  explicit transom_executable(const transom_graph& given) : graph(given) {}
  Graph graph;
  std::vector<Compute> kernels;  // of graph.nodes
};
struct transom_capture : Handle {
  std::vector<std::pair<transom_executable*, std::vector<char*>>> launches;  // with the addresses of all values
};

// ---- devices, memory, copies

static void describe(uint32_t index, transom_device_properties* properties) {
  expect(index == 0, "there is one device, number 0");
  transom_device_properties mine{};
  std::strcpy(mine.name, "example device");
  std::strcpy(mine.architecture, "plain loops");
  mine.flags = TRANSOM_DEVICE_HOST_MEMORY, mine.memory_bytes = kMemory, mine.compute_units = 1;
  hand_over(mine, properties);
}
static void open_device(uint32_t index, transom_device** device) {
  expect(index == 0, "there is one device, number 0"), *device = new transom_device;
}

static void allocate(transom_device*, size_t bytes, transom_buffer** buffer) {
  expect(bytes <= kMemory - memory.bytes_in_use, "no room for the buffer", TRANSOM_OUT_OF_MEMORY);
  auto made = std::make_unique<transom_buffer>();
  made->data.reset(static_cast<char*>(std::aligned_alloc(64, (bytes + 64) / 64 * 64)));
  if (!made->data) throw std::bad_alloc();
  memory.bytes_in_use += made->bytes = bytes;
  if (memory.peak_bytes_in_use < memory.bytes_in_use) memory.peak_bytes_in_use = memory.bytes_in_use;
  ++memory.allocations;
  *buffer = made.release();
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
static void copy_in(transom_stream*, const void* from, transom_binding to, size_t n) { copy(address(to, n), from, n); }
static void copy_out(transom_stream*, transom_binding from, void* to, size_t n) { copy(to, address(from, n), n); }
static void copy_across(transom_stream*, transom_binding from, transom_binding to, size_t bytes) {
  copy(address(to, bytes), address(from, bytes), bytes);
}
static void statistics(transom_device*, transom_memory_statistics* statistics) {
  memory.bytes_limit = kMemory;
  hand_over(memory, statistics);
}
static void make_stream(transom_device*, transom_stream** stream) { *stream = new transom_stream; }
static void synchronize(transom_stream*) {}  // all work is done in the calls

// ---- programs

static void compile(transom_device*, const transom_graph* graph, transom_executable** executable) {
  auto made = std::make_unique<transom_executable>(*graph);
  for (const Value& value : made->graph.values)
    expect(with_element(value.dtype, [](auto) {}), "no elements of type " + std::to_string(value.dtype),
           TRANSOM_UNSUPPORTED);
  for (const Node& node : made->graph.nodes) {
    made->kernels.push_back(find_operation(node.op));
    expect(made->kernels.back(), "no kernel for " + node.op, TRANSOM_UNSUPPORTED);
  }
  *executable = made.release();
}

static void compute(const transom_executable& executable, const std::vector<char*>& places) {
  const std::vector<Value>& values = executable.graph.values;
  for (size_t i = 0; i < executable.kernels.size(); ++i) {
    const Node& node = executable.graph.nodes[i];
    Arrays in, out;
    for (const int32_t v : node.inputs) in.push_back(load(places[v], values[v].dtype, values[v].shape));
    for (const int32_t v : node.outputs)
      out.push_back({values[v].dtype, values[v].shape, std::vector<Number>(count_of(values[v].shape))});
    executable.kernels[i](in, node.attributes, out);
    // All inputs are read by now: an output may lie where an input was.
    for (size_t o = 0; o < out.size(); ++o) store(out[o], places[node.outputs[o]]);
  }
}

static void run(transom_executable* executable, const transom_launch* launch) {
  std::vector<char*> places = places_of(executable->graph, *launch, address);
  if (auto& recording = launch->stream->recording) recording->launches.emplace_back(executable, std::move(places));
  else compute(*executable, places);
}

static void begin_capture(transom_stream* stream) { stream->recording = std::make_unique<transom_capture>(); }
static void end_capture(transom_stream* stream, transom_capture** capture) {
  expect(stream->recording != nullptr, "the stream is not being captured");
  *capture = stream->recording.release();
}
static void replay(transom_capture* capture, transom_stream*) {
  for (const auto& [executable, places] : capture->launches) compute(*executable, places);
}

// ---- the table

transom_status transom_plugin_open(const transom_host* host, transom_plugin* plugin, transom_error* error) {
  return open(host, plugin, error, [](transom_plugin& mine) {
    mine.name = "example", mine.version = "1.0", mine.priority = 0;  // never chosen by itself
    mine.device_count = [](uint32_t* count, transom_error*) { return *count = 1, TRANSOM_OK; };
    mine.device_describe = entry<describe>;
    mine.device_open = entry<open_device>;
    mine.device_close = [](transom_device* device) { delete device; };
    mine.buffer_allocate = entry<allocate>;
    mine.buffer_free = [](transom_buffer* buffer) { delete buffer; };
    mine.buffer_host_pointer = [](transom_buffer* buffer) -> void* { return buffer->data.get(); };
    mine.copy_to_device = entry<copy_in>;
    mine.copy_to_host = entry<copy_out>;
    mine.copy_on_device = entry<copy_across>;
    mine.memory_statistics = entry<statistics>;
    mine.stream_create = entry<make_stream>;
    mine.stream_destroy = [](transom_stream* stream) { delete stream; };
    mine.stream_synchronize = entry<synchronize>;
    mine.claims = [](transom_device*, const char*, const transom_value*, size_t, const transom_attribute*, size_t) {
      return 0;
    };
    mine.compile = entry<compile>;
    mine.executable_destroy = [](transom_executable* executable) { delete executable; };
    mine.run = entry<run>;
    mine.capture_begin = entry<begin_capture>;
    mine.capture_end = entry<end_capture>;
    mine.capture_replay = entry<replay>;
    mine.capture_destroy = [](transom_capture* capture) { delete capture; };
  });
}
