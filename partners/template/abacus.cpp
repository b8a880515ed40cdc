// SPDX-License-Identifier: Apache-2.0
// A device that computes three operations on floats, in host memory. What it does not support the host computes.
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "transom/plugin/error.h"
#include "transom/plugin/handle.h"

using namespace transom::plugin;
using transom::backend::expect_inside;
using transom::backend::fail;
using transom::backend::Handle;
using Json = nlohmann::json;

// ---- what the handles stand for

struct transom_device {};
struct transom_stream : Handle {};
struct transom_buffer : Handle {
  explicit transom_buffer(size_t size)
      : bytes(size), data(static_cast<char*>(std::aligned_alloc(64, (size + 64) / 64 * 64)), std::free) {
    if (!data) throw std::bad_alloc();
  }
  size_t bytes;
  std::unique_ptr<char, decltype(&std::free)> data;
};
struct transom_executable : Handle {
  explicit transom_executable(const transom_graph& given) : graph(given) {}
  Graph graph;
};

namespace {

float computed(const std::string& op, float x, float y) { return op == "add" ? x + y : op == "sub" ? x - y : x * y; }

bool is_ours(const Graph& graph, const Node& node) {
  if (node.op != "add" && node.op != "sub" && node.op != "mul") return false;
  for (const int32_t value : node.inputs)
    if (graph.values[static_cast<size_t>(value)].dtype != TRANSOM_FLOAT32) return false;
  return true;
}

// What the arguments and the variable of libtransom_abacus.json ask for.
std::string settings_of(const Json& request) {
  const char* slowly = std::getenv("ABACUS_SLOWLY");
  if (request.at("question") == "defaults") return slowly && *slowly ? R"({"mode": "eager"})" : "{}";
  if (request.at("question") != "arguments") return "{}";
  const Json &given = request.at("arguments"), &device = request.at("values").at("device");
  if (!given.contains("use_abacus")) return "{}";
  const bool is_named = device.is_string() && device.get<std::string>().starts_with("abacus");
  if (given["use_abacus"] == false && is_named)
    fail(TRANSOM_INVALID_ARGUMENT, "--use_abacus false and --device abacus: expected another device");
  if (given["use_abacus"] == false) return R"({"avoid": true})";
  if (device.is_string() && !is_named)
    fail(TRANSOM_INVALID_ARGUMENT, "--use_abacus and --device {}: expected abacus, or no --device",
         device.get<std::string>());
  return R"({"set": {"device": "abacus"}, "notes": ["the abacus is slow"]})";
}

// The functions of the table that have its names; fill_table makes of what they throw a status and a line.
struct Table {
  static char* address(transom_binding place, size_t bytes) {
    if (bytes == 0) return nullptr;
    if (!place.buffer) fail(TRANSOM_INVALID_ARGUMENT, "expected a buffer of {} bytes, found none", bytes);
    expect_inside(place, place.buffer->bytes, bytes);
    return place.buffer->data.get() + place.offset;
  }
  static void copy(void* to, const void* from, size_t bytes) {
    if (bytes) std::memmove(to, from, bytes);
  }

  static void device_count(uint32_t* count) { *count = 1; }
  static void device_describe(uint32_t index, transom_device_properties* properties) {
    expect(index == 0, "there is one device, number 0");
    transom_device_properties mine{};
    std::strcpy(mine.name, "Abacus");
    std::strcpy(mine.architecture, "13 rods");
    mine.flags = TRANSOM_DEVICE_HOST_MEMORY, mine.memory_bytes = uint64_t{1} << 30, mine.compute_units = 1;
    hand_over(mine, properties);
  }
  static void device_open(uint32_t, transom_device** device) { *device = new transom_device; }
  static void device_close(transom_device* device) { delete device; }

  static void buffer_allocate(transom_device*, size_t bytes, transom_buffer** buffer) {
    expect(bytes <= uint64_t{1} << 30, "no room for the buffer", TRANSOM_OUT_OF_MEMORY);
    *buffer = new transom_buffer(bytes);
  }
  static void buffer_free(transom_buffer* buffer) { delete buffer; }
  static void* buffer_host_pointer(transom_buffer* buffer) { return buffer->data.get(); }
  static void copy_to_device(transom_stream*, const void* from, transom_binding to, size_t bytes) {
    copy(address(to, bytes), from, bytes);
  }
  static void copy_to_host(transom_stream*, transom_binding from, void* to, size_t bytes) {
    copy(to, address(from, bytes), bytes);
  }
  static void copy_on_device(transom_stream*, transom_binding from, transom_binding to, size_t bytes) {
    copy(address(to, bytes), address(from, bytes), bytes);
  }
  static void stream_create(transom_device*, transom_stream** stream) { *stream = new transom_stream; }
  static void stream_destroy(transom_stream* stream) { delete stream; }
  static void stream_synchronize(transom_stream*) {}  // all work is done in the calls

  static int32_t claims(transom_device*, const char*, const transom_value*, size_t, const transom_attribute*, size_t) {
    return 0;  // primitives alone
  }
  static int32_t supports(transom_device*, const transom_graph* node) {
    try {
      const Graph graph(*node);
      return graph.nodes.size() == 1 && is_ours(graph, graph.nodes[0]);
    } catch (const Failure&) {
      return 0;
    }
  }
  static void compile(transom_device*, const transom_graph* graph, transom_executable** executable) {
    auto made = std::make_unique<transom_executable>(*graph);
    for (const Node& node : made->graph.nodes)
      expect(is_ours(made->graph, node), "no kernel for " + node.op, TRANSOM_UNSUPPORTED);
    *executable = made.release();
  }
  static void executable_destroy(transom_executable* executable) { delete executable; }
  static void run(transom_executable* executable, const transom_launch* launch) {
    const Graph& graph = executable->graph;
    const auto places = places_of(graph, *launch, address);
    const auto floats = [&](int32_t value) { return reinterpret_cast<float*>(places[static_cast<size_t>(value)]); };
    for (const Node& node : graph.nodes) {
      const float *x = floats(node.inputs.at(0)), *y = floats(node.inputs.at(1));
      float* to = floats(node.outputs.at(0));  // perhaps where x or y lies
      const size_t count = graph.values[static_cast<size_t>(node.outputs[0])].bytes() / sizeof(float);
      for (size_t i = 0; i < count; ++i) to[i] = computed(node.op, x[i], y[i]);
    }
  }

  static void settings(const char* request, void (*answer)(void* context, const char* text), void* context) {
    answer(context, settings_of(Json::parse(request)).c_str());
  }
};

}  // namespace

transom_status transom_plugin_open(const transom_host* host, transom_plugin* plugin, transom_error* error) {
  return open(host, plugin, error, [](transom_plugin& mine) {
    mine.name = "abacus", mine.version = "1.0", mine.priority = 0;  // never chosen by itself
    fill_table<Table>(mine);
  });
}
