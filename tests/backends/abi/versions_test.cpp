// SPDX-License-Identifier: Apache-2.0
// A host of the next minor version with the plugins of this one: the header that this file includes has one more field
// at the end of every struct that may grow. And hosts of older versions, which know less.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/folders.h"
#include "transom/device_plugin.h"

namespace {

constexpr uint64_t kLater = 0xABABABABABABABAB;  // no count, index or address

template <typename Struct>
Struct made(Struct value) {
  value.struct_size = sizeof value;
  for (uint64_t& field : value.added_later) field = kLater;
  return value;
}

void parallel(size_t count, void* context, transom_parallel_body body) {
  for (size_t i = 0; i < count; ++i) body(context, i);
}

transom_host newest_host() {
  return made<transom_host>({.major = TRANSOM_PLUGIN_MAJOR,
                             .minor = TRANSOM_PLUGIN_MINOR,
                             .log = [](int32_t, const char*) {},
                             .threads = 1,
                             .parallel = parallel,
                             .release = [](const void*, size_t) {}});
}

// A plugin, loaded by a host of which it sees as much as host.struct_size says.
class Loaded {
 public:
  Loaded(const std::string& name, const transom_host& host, size_t table_size = sizeof(transom_plugin)) {
    const std::string path = transom::test::build_folder() + "/lib/transom/libtransom_" + name + ".so";
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) throw std::runtime_error(dlerror());
    const auto open = reinterpret_cast<transom_plugin_open_function>(dlsym(library, "transom_plugin_open"));
    std::memset(&table, 0xAB, sizeof table);
    table.struct_size = table_size;
    done(open(&host, &table, &error));
  }
  void done(transom_status status) {
    if (status != TRANSOM_OK) throw std::runtime_error(error.text);
  }
  transom_plugin table;
  transom_error error{};
};

// A graph as the next version's host gives it.
struct Built {
  std::vector<transom_value> values;
  std::vector<transom_node> nodes;
  std::vector<int32_t> inputs, outputs;
  transom_graph graph{};

  int32_t value(const int64_t* shape, int32_t rank, int64_t offset) {
    values.push_back({TRANSOM_FLOAT32, rank, shape, offset, 0});
    return static_cast<int32_t>(values.size() - 1);
  }
  void node(const char* op, const std::vector<int32_t>& in, const std::vector<int32_t>& out,
            const transom_graph* region = nullptr) {
    nodes.push_back(made<transom_node>({.op = op,
                                        .scope = "layer",
                                        .inputs = in.data(),
                                        .inputs_count = in.size(),
                                        .outputs = out.data(),
                                        .outputs_count = out.size(),
                                        .region = region}));
  }
  const transom_graph& finish(size_t arena) {
    graph = made<transom_graph>({.values = values.data(),
                                 .values_count = values.size(),
                                 .nodes = nodes.data(),
                                 .nodes_count = nodes.size(),
                                 .inputs = inputs.data(),
                                 .inputs_count = inputs.size(),
                                 .outputs = outputs.data(),
                                 .outputs_count = outputs.size(),
                                 .arena_size = arena});
    return graph;
  }
};

constexpr int64_t kShape[] = {3};

// exp(x + y) * y, in three nodes.
struct ThreeNodes : Built {
  std::vector<int32_t> xy{0, 1}, sum{2}, exp{3}, exp_y{3, 1}, product{4};
  explicit ThreeNodes(bool planned) {
    inputs = xy, outputs = product;
    for (int i = 0; i < 2; ++i) value(kShape, 1, -1);
    value(kShape, 1, planned ? 0 : -1);
    value(kShape, 1, planned ? 64 : -1);
    value(kShape, 1, -1);
    node("add", xy, sum);
    node("exp", sum, exp);
    node("mul", exp_y, product);
    finish(planned ? 128 : 0);
  }
};

// softmax(x + y) * y, for which a region walks rows.
struct Rows : Built {
  std::vector<int32_t> xy{0, 1}, sum{2}, softmax{3}, softmax_y{3, 1}, product{4};
  Rows() {
    inputs = xy, outputs = product;
    for (int i = 0; i < 5; ++i) value(kShape, 1, -1);
    node("add", xy, sum);
    node("softmax", sum, softmax);
    node("mul", softmax_y, product);
    finish(0);
  }
};

// A region as the one node of a graph, as a device that claims it gets it.
struct Region : Built {
  std::vector<int32_t> xy{0, 1}, result{2};
  Region(const char* op, const transom_graph& region) {
    inputs = xy, outputs = result;
    for (int i = 0; i < 3; ++i) value(kShape, 1, -1);
    node(op, xy, result, &region);
    finish(0);
  }
};

std::vector<float> run(Loaded& plugin, const transom_graph& graph, const std::vector<float>& x,
                       const std::vector<float>& y) {
  transom_plugin& t = plugin.table;
  transom_device* device = nullptr;
  transom_stream* stream = nullptr;
  transom_executable* executable = nullptr;
  plugin.done(t.device_open(0, &device, &plugin.error));
  plugin.done(t.stream_create(device, &stream, &plugin.error));
  plugin.done(t.compile(device, &graph, &executable, &plugin.error));
  const size_t bytes = x.size() * sizeof(float);
  transom_binding bindings[4] = {};
  for (size_t i = 0; i < 4; ++i)
    plugin.done(t.buffer_allocate(device, i < 3 ? bytes : graph.arena_size, &bindings[i].buffer, &plugin.error));
  plugin.done(t.copy_to_device(stream, x.data(), bindings[0], bytes, &plugin.error));
  plugin.done(t.copy_to_device(stream, y.data(), bindings[1], bytes, &plugin.error));
  const auto launch = made<transom_launch>({.stream = stream,
                                            .inputs = bindings,
                                            .inputs_count = 2,
                                            .outputs = bindings + 2,
                                            .outputs_count = 1,
                                            .arena = graph.arena_size ? bindings[3] : transom_binding{}});
  plugin.done(t.run(executable, &launch, &plugin.error));
  std::vector<float> found(x.size());
  plugin.done(t.copy_to_host(stream, bindings[2], found.data(), bytes, &plugin.error));
  plugin.done(t.stream_synchronize(stream, &plugin.error));
  for (const transom_binding& binding : bindings) t.buffer_free(binding.buffer);
  t.executable_destroy(executable);
  t.stream_destroy(stream);
  t.device_close(device);
  return found;
}

const std::vector<float> kX = {0.5f, -1, 2}, kY = {1, 0.25f, -3};

void expect_right(const std::vector<float>& found) {
  for (size_t i = 0; i < kX.size(); ++i)
    EXPECT_NEAR(found[i], std::exp(kX[i] + kY[i]) * kY[i], 1e-5 * std::abs(found[i])) << i;
}

class Plugins : public testing::TestWithParam<const char*> {
 protected:
  bool is_here(Loaded& plugin) {
    uint32_t count = 0;
    return plugin.table.device_count(&count, &plugin.error) == TRANSOM_OK && count > 0;
  }
};

TEST_P(Plugins, RunTheGraphsOfANewerHost) {
  Loaded plugin(GetParam(), newest_host());
  if (!is_here(plugin)) GTEST_SKIP() << plugin.error.text;
  transom_device_properties properties = made(transom_device_properties{});
  plugin.done(plugin.table.device_describe(0, &properties, &plugin.error));
  EXPECT_LT(properties.struct_size, sizeof properties);
  EXPECT_EQ(properties.added_later[0], kLater) << "written past what the plugin knows";
  EXPECT_LT(plugin.table.struct_size, sizeof plugin.table);
  EXPECT_EQ(plugin.table.added_later[0], kLater) << "written past what the plugin knows";
  const bool plans = (properties.flags & TRANSOM_DEVICE_PLANS_MEMORY) != 0;
  const std::vector<float> found = run(plugin, ThreeNodes(!plans).graph, kX, kY);
  if (!(properties.flags & TRANSOM_DEVICE_COMPUTES_NOTHING)) expect_right(found);
}

TEST_P(Plugins, TellANewerHostOfTheirMemory) {
  Loaded plugin(GetParam(), newest_host());
  if (!is_here(plugin)) GTEST_SKIP() << plugin.error.text;
  if (!plugin.table.memory_statistics) GTEST_SKIP() << "tells nothing";
  transom_device* device = nullptr;
  plugin.done(plugin.table.device_open(0, &device, &plugin.error));
  transom_memory_statistics statistics = made(transom_memory_statistics{});
  plugin.done(plugin.table.memory_statistics(device, &statistics, &plugin.error));
  EXPECT_EQ(statistics.struct_size, offsetof(transom_memory_statistics, added_later));
  EXPECT_EQ(statistics.added_later[0], kLater);
  plugin.table.device_close(device);
}

// 1.0's table ends before host_allocate, its host before release.
TEST_P(Plugins, ServeTheOldestHost) {
  transom_host host = newest_host();
  host.minor = 0;
  host.struct_size = offsetof(transom_host, release);
  Loaded plugin(GetParam(), host, offsetof(transom_plugin, host_allocate));
  if (!is_here(plugin)) GTEST_SKIP() << plugin.error.text;
  EXPECT_EQ(plugin.table.struct_size, offsetof(transom_plugin, host_allocate));
  uint64_t behind = 0;
  std::memcpy(&behind, &plugin.table.host_allocate, sizeof behind);
  EXPECT_EQ(behind, kLater) << "written past what the host reads";
  transom_device_properties properties = made(transom_device_properties{});
  plugin.done(plugin.table.device_describe(0, &properties, &plugin.error));
  const bool plans = (properties.flags & TRANSOM_DEVICE_PLANS_MEMORY) != 0;
  const std::vector<float> found = run(plugin, ThreeNodes(!plans).graph, kX, kY);
  if (!(properties.flags & TRANSOM_DEVICE_COMPUTES_NOTHING)) expect_right(found);
}

INSTANTIATE_TEST_SUITE_P(OfThisTree, Plugins, testing::Values("cpu", "reference", "null"),
                         [](const testing::TestParamInfo<const char*>& info) { return std::string(info.param); });

TEST(Regions, OfANewerHostRunOnTheCpu) {
  Loaded plugin("cpu", newest_host());
  const ThreeNodes elementwise(false);
  expect_right(run(plugin, Region("fusion", elementwise.graph).graph, kX, kY));
  const Rows rows;
  const std::vector<float> found = run(plugin, Region("row_fusion", rows.graph).graph, kX, kY);
  double total = 0;
  for (size_t i = 0; i < kX.size(); ++i) total += std::exp(kX[i] + kY[i]);
  for (size_t i = 0; i < kX.size(); ++i)
    EXPECT_NEAR(found[i], std::exp(kX[i] + kY[i]) / total * kY[i], 1e-5 * std::abs(found[i])) << i;
}

// Nodes that step over nothing would be read for ever.
TEST(Nodes, WithoutASizeAreRefused) {
  for (const char* name : {"cpu", "reference"}) {
    Loaded plugin(name, newest_host());
    ThreeNodes built(true);
    built.nodes[1].struct_size = 0;
    try {
      run(plugin, built.graph, kX, kY);
      ADD_FAILURE() << name << " ran it";
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find("nodes of at least"), std::string::npos) << name << ": " << error.what();
    }
  }
}

}  // namespace
