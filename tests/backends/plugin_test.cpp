// SPDX-License-Identifier: Apache-2.0
// What the interface asks of every plugin, and the error paths of both.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "backends/harness.h"
#include "support/test_names.h"
#include "transom/device_plugin.hpp"

namespace transom::backend_test {
namespace {

// fill_table must know every function of the header.
#define COUNT(name) +1
static_assert(sizeof(transom_plugin) ==
              offsetof(transom_plugin, device_count) + (0 TRANSOM_PLUGIN_TABLE(COUNT)) * sizeof(void*));
#undef COUNT

class BothPlugins : public testing::TestWithParam<const char*> {};

TEST_P(BothPlugins, DescribesItsDevice) {
  Plugin plugin(GetParam());
  EXPECT_STREQ(plugin.table.name, GetParam());
  transom_device_properties properties{};
  properties.struct_size = sizeof properties;
  transom_error error{};
  ASSERT_EQ(plugin.table.device_describe(0, &properties, &error), TRANSOM_OK);
  EXPECT_NE(properties.name[0], '\0');
  EXPECT_TRUE(properties.flags & TRANSOM_DEVICE_HOST_MEMORY);
  EXPECT_EQ(plugin.table.device_describe(1, &properties, &error), TRANSOM_INVALID_ARGUMENT);
  EXPECT_NE(error.text[0], '\0');
}

TEST_P(BothPlugins, FillsOnlyWhatAnOlderHostCanRead) {
  Plugin plugin(GetParam());
  transom_device_properties properties;
  std::memset(&properties, 0x55, sizeof properties);
  properties.struct_size = offsetof(transom_device_properties, flags);
  transom_error error{};
  ASSERT_EQ(plugin.table.device_describe(0, &properties, &error), TRANSOM_OK);
  EXPECT_EQ(properties.flags, 0x5555555555555555u);
}

TEST_P(BothPlugins, CopiesStayInsideBuffers) {
  Plugin plugin(GetParam());
  transom_error error{};
  transom_binding buffer{nullptr, 0};
  ASSERT_EQ(plugin.table.buffer_allocate(plugin.device, 100, &buffer.buffer, &error), TRANSOM_OK);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(plugin.table.buffer_host_pointer(buffer.buffer)) % 64, 0u);
  char data[100] = "carried";
  char back[100] = {};
  EXPECT_EQ(plugin.table.copy_to_device(plugin.stream, data, buffer, 100, &error), TRANSOM_OK);
  EXPECT_EQ(plugin.table.copy_to_host(plugin.stream, buffer, back, 100, &error), TRANSOM_OK);
  EXPECT_STREQ(back, "carried");
  EXPECT_EQ(plugin.table.copy_to_device(plugin.stream, data, buffer, 101, &error), TRANSOM_INVALID_ARGUMENT);
  EXPECT_EQ(plugin.table.copy_to_host(plugin.stream, {buffer.buffer, 60}, back, 41, &error), TRANSOM_INVALID_ARGUMENT);
  EXPECT_EQ(plugin.table.copy_on_device(plugin.stream, {buffer.buffer, SIZE_MAX}, buffer, 2, &error),
            TRANSOM_INVALID_ARGUMENT);
  EXPECT_EQ(plugin.table.copy_on_device(plugin.stream, buffer, {buffer.buffer, 3}, 90, &error), TRANSOM_OK);
  plugin.table.buffer_free(buffer.buffer);
}

TEST_P(BothPlugins, ZeroAndImpossibleSizes) {
  Plugin plugin(GetParam());
  transom_error error{};
  transom_buffer* buffer = nullptr;
  ASSERT_EQ(plugin.table.buffer_allocate(plugin.device, 0, &buffer, &error), TRANSOM_OK);
  plugin.table.buffer_free(buffer);
  for (size_t size : {SIZE_MAX, SIZE_MAX / 2})
    EXPECT_EQ(plugin.table.buffer_allocate(plugin.device, size, &buffer, &error), TRANSOM_OUT_OF_MEMORY);
}

TEST_P(BothPlugins, RefusesAnotherNumberOfInputs) {
  Plugin plugin(GetParam());
  Graph graph;
  const int x = graph.input(TRANSOM_FLOAT32, {3});
  graph.output(graph.node("neg", {x}, TRANSOM_FLOAT32, {3}));
  Program program(plugin, graph);
  program.run({});
  EXPECT_NE(program.error, "");
}

INSTANTIATE_TEST_SUITE_P(Plugins, BothPlugins, testing::Values("cpu", "null"), transom::test::NameOfCase());

TEST(NullPlugin, AcceptsEveryGraph) {
  Plugin plugin("null");
  Graph graph;
  const int x = graph.input(TRANSOM_FLOAT32, {3});
  graph.output(graph.node("no_such_operation", {x}, TRANSOM_FLOAT32, {3}));
  Program program(plugin, graph);
  EXPECT_EQ(program.run({numbers(TRANSOM_FLOAT32, {3})}).size(), 1u);
  EXPECT_EQ(program.error, "");
}

TEST(CpuPlugin, RefusesBrokenGraphs) {
  Plugin& plugin = Plugin::cpu();
  transom_error error{};
  transom_executable* executable = nullptr;
  const int64_t shape[] = {3};
  transom_value values[] = {{TRANSOM_FLOAT32, 1, shape, -1, 0}, {TRANSOM_FLOAT32, 1, shape, -1, 0}};
  const int32_t input = 0, output = 1, wild = 9;
  transom_node node = {sizeof(transom_node), "neg", "test", &input, 1, &output, 1, nullptr, 0, nullptr};
  transom_graph graph = {sizeof(transom_graph), values, 2, &node, 1, &input, 1, &output, 1, 0};
  const auto compiles = [&] {
    const transom_status status = plugin.table.compile(plugin.device, &graph, &executable, &error);
    if (status == TRANSOM_OK) plugin.table.executable_destroy(executable);
    return status;
  };
  EXPECT_EQ(compiles(), TRANSOM_OK);
  node.inputs = &wild;
  EXPECT_EQ(compiles(), TRANSOM_INVALID_ARGUMENT);
  node.inputs = &input;
  graph.outputs = &wild;
  EXPECT_EQ(compiles(), TRANSOM_INVALID_ARGUMENT);
  graph.outputs = &output;
  graph.outputs_count = 0;  // now the value has no place
  EXPECT_EQ(compiles(), TRANSOM_INVALID_ARGUMENT);
  values[1].arena_offset = 64;  // outside of the arena
  EXPECT_EQ(compiles(), TRANSOM_INVALID_ARGUMENT);
  values[1].dtype = 77;
  EXPECT_EQ(compiles(), TRANSOM_INVALID_ARGUMENT);
}

TEST(CpuPlugin, RefusesBuffersThatAreTooSmall) {
  Plugin& plugin = Plugin::cpu();
  Graph graph;
  const int x = graph.input(TRANSOM_FLOAT32, {64});
  graph.output(graph.node("neg", {x}, TRANSOM_FLOAT32, {64}));
  Program program(plugin, graph);
  program.run({numbers(TRANSOM_FLOAT32, {63})});
  EXPECT_NE(program.error.find("256 bytes"), std::string::npos) << program.error;
}

TEST(CpuPlugin, RunsTheSameOnUnalignedImports) {
  Plugin& plugin = Plugin::cpu();
  const Tensor x = numbers(TRANSOM_FLOAT32, {777});
  std::vector<char> bytes(777 * 4 + 4);
  encode(x, bytes.data() + 4);
  transom_error error{};
  transom_binding binding{nullptr, 0};
  ASSERT_EQ(plugin.table.buffer_import(plugin.device, bytes.data() + 4, 777 * 4, &binding.buffer, &error), TRANSOM_OK);
  Graph graph;
  graph.output(graph.node("neg", {graph.input(x)}, TRANSOM_FLOAT32, {777}));
  Program program(plugin, graph);
  const Tensor y = program.run_buffers({binding})[0];
  for (size_t i = 0; i < 777; ++i) EXPECT_EQ(y.values[i], -x.values[i]);
  plugin.table.buffer_free(binding.buffer);
}

TEST(CpuPlugin, CountsMemoryAndReusesIt) {
  Plugin plugin("cpu");
  transom_error error{};
  transom_memory_statistics statistics{};
  statistics.struct_size = sizeof statistics;
  transom_buffer* buffer = nullptr;
  ASSERT_EQ(plugin.table.buffer_allocate(plugin.device, 10 << 20, &buffer, &error), TRANSOM_OK);
  void* first = plugin.table.buffer_host_pointer(buffer);
  plugin.table.memory_statistics(plugin.device, &statistics, &error);
  EXPECT_GE(statistics.bytes_in_use, 10u << 20);
  plugin.table.buffer_free(buffer);
  plugin.table.memory_statistics(plugin.device, &statistics, &error);
  EXPECT_EQ(statistics.bytes_in_use, 0u);
  EXPECT_GE(statistics.peak_bytes_in_use, 10u << 20);
#if !defined(__SANITIZE_ADDRESS__)
  ASSERT_EQ(plugin.table.buffer_allocate(plugin.device, 10 << 20, &buffer, &error), TRANSOM_OK);
  EXPECT_EQ(plugin.table.buffer_host_pointer(buffer), first);
  plugin.table.buffer_free(buffer);
#endif
}

TEST(CpuPlugin, ProfilesEachNodeAndDescribesIt) {
  Plugin& plugin = Plugin::cpu();
  const Tensor x = numbers(TRANSOM_FLOAT32, {5, 7});
  Graph graph;
  const int negative = graph.node("neg", {graph.input(x)}, TRANSOM_FLOAT32, {5, 7});
  graph.output(graph.node("softmax", {negative}, TRANSOM_FLOAT32, {5, 7}));
  Program program(plugin, graph);
  std::vector<size_t> nodes;
  transom_error error{};
  const auto callback = [](void* user, size_t node, const char* kernel, uint64_t begin, uint64_t end) {
    static_cast<std::vector<size_t>*>(user)->push_back(node);
    EXPECT_NE(kernel[0], '\0');
    EXPECT_LE(begin, end);
  };
  plugin.table.profile(plugin.device, callback, &nodes, &error);
  program.run({x});
  plugin.table.profile(plugin.device, nullptr, nullptr, &error);
  program.run({x});
  EXPECT_EQ(nodes, (std::vector<size_t>{0, 1}));
  EXPECT_NE(program.describe().find("softmax"), std::string::npos);
}

}  // namespace
}  // namespace transom::backend_test
