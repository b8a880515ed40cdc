// SPDX-License-Identifier: Apache-2.0
// The reference device through the plugin header alone, as a host would use it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "base/numbers/half.h"
#include "support/folders.h"
#include "transom/device_plugin.h"

namespace transom {
namespace {

class Reference : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = test::build_folder() + "/lib/transom/libtransom_reference.so";
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    open_ = reinterpret_cast<transom_plugin_open_function>(dlsym(library_, "transom_plugin_open"));
    ASSERT_NE(open_, nullptr);
    plugin_.struct_size = sizeof plugin_;
    ASSERT_EQ(open_(&host_, &plugin_, &error_), TRANSOM_OK) << error_.text;
    ASSERT_EQ(plugin_.device_open(0, &device_, &error_), TRANSOM_OK);
    ASSERT_EQ(plugin_.stream_create(device_, &stream_, &error_), TRANSOM_OK);
  }
  void TearDown() override {
    for (transom_executable* executable : executables_) plugin_.executable_destroy(executable);
    for (transom_buffer* buffer : buffers_) plugin_.buffer_free(buffer);
    if (stream_) plugin_.stream_destroy(stream_);
    if (device_) plugin_.device_close(device_);
    if (library_) dlclose(library_);
  }

  transom_binding allocate(size_t bytes) {
    transom_buffer* buffer = nullptr;
    EXPECT_EQ(plugin_.buffer_allocate(device_, bytes, &buffer, &error_), TRANSOM_OK);
    buffers_.push_back(buffer);
    return {buffer, 0};
  }
  template <typename T>
  transom_binding upload(const std::vector<T>& values) {
    const transom_binding binding = allocate(values.size() * sizeof(T));
    EXPECT_EQ(plugin_.copy_to_device(stream_, values.data(), binding, values.size() * sizeof(T), &error_), TRANSOM_OK);
    return binding;
  }
  template <typename T>
  std::vector<T> download(transom_binding binding, size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(plugin_.copy_to_host(stream_, binding, values.data(), count * sizeof(T), &error_), TRANSOM_OK);
    return values;
  }
  transom_status compile(const transom_graph& graph, transom_executable** executable) {
    const transom_status status = plugin_.compile(device_, &graph, executable, &error_);
    if (status == TRANSOM_OK) executables_.push_back(*executable);
    return status;
  }

  void* library_ = nullptr;
  transom_plugin_open_function open_ = nullptr;
  transom_host host_{.struct_size = sizeof(transom_host), .major = TRANSOM_PLUGIN_MAJOR, .minor = TRANSOM_PLUGIN_MINOR};
  transom_plugin plugin_{};
  transom_error error_{};
  transom_device* device_ = nullptr;
  transom_stream* stream_ = nullptr;
  std::vector<transom_buffer*> buffers_;
  std::vector<transom_executable*> executables_;
};

// (x, y) -> exp(x + y), the sum in the arena at byte 64.
struct SumGraph {
  int64_t shape[1] = {3};
  transom_value values[4];
  int32_t sum_inputs[2] = {0, 1}, sum_outputs[1] = {2}, exp_outputs[1] = {3};
  transom_node nodes[2];
  transom_graph graph;

  explicit SumGraph(int32_t dtype) {
    for (transom_value& value : values) value = {dtype, 1, shape, -1, 0};
    values[2].arena_offset = 64;
    nodes[0] = {.struct_size = sizeof(transom_node),
                .op = "add",
                .scope = "layer.0",
                .inputs = sum_inputs,
                .inputs_count = 2,
                .outputs = sum_outputs,
                .outputs_count = 1};
    nodes[1] = {.struct_size = sizeof(transom_node),
                .op = "exp",
                .scope = "",
                .inputs = sum_outputs,
                .inputs_count = 1,
                .outputs = exp_outputs,
                .outputs_count = 1};
    graph = {.struct_size = sizeof(transom_graph),
             .values = values,
             .values_count = 4,
             .nodes = nodes,
             .nodes_count = 2,
             .inputs = sum_inputs,
             .inputs_count = 2,
             .outputs = exp_outputs,
             .outputs_count = 1,
             .arena_size = 128};
  }
  SumGraph(const SumGraph&) = delete;
};

TEST_F(Reference, DescribesItself) {
  EXPECT_STREQ(plugin_.name, "reference");
  EXPECT_EQ(plugin_.priority, 1u);
  uint32_t count = 0;
  EXPECT_EQ(plugin_.device_count(&count, &error_), TRANSOM_OK);
  EXPECT_EQ(count, 1u);
  transom_device_properties properties{.struct_size = sizeof properties};
  EXPECT_EQ(plugin_.device_describe(0, &properties, &error_), TRANSOM_OK);
  EXPECT_EQ(properties.flags, static_cast<uint64_t>(TRANSOM_DEVICE_HOST_MEMORY));
  EXPECT_EQ(plugin_.device_describe(1, &properties, &error_), TRANSOM_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.claims(device_, "softmax", nullptr, 0, nullptr, 0), 0);
  EXPECT_EQ(plugin_.claims(device_, "fusion", nullptr, 0, nullptr, 0), 0);
}

TEST_F(Reference, RefusesAHostOfAnotherMajorVersion) {
  transom_host later = host_;
  later.major = TRANSOM_PLUGIN_MAJOR + 1;
  EXPECT_EQ(open_(&later, &plugin_, &error_), TRANSOM_UNSUPPORTED);
  EXPECT_NE(std::string(error_.text), "");
}

TEST_F(Reference, WritesOnlyWhatAnOlderHostCanRead) {
  transom_plugin small;
  std::memset(&small, 0x5A, sizeof small);
  small.struct_size = offsetof(transom_plugin, device_count);
  ASSERT_EQ(open_(&host_, &small, &error_), TRANSOM_OK);
  EXPECT_EQ(small.struct_size, offsetof(transom_plugin, device_count));
  unsigned char first_byte;
  std::memcpy(&first_byte, &small.device_count, 1);
  EXPECT_EQ(first_byte, 0x5A);
}

TEST_F(Reference, RunsAGraphInFloat32) {
  const SumGraph sum(TRANSOM_FLOAT32);
  transom_executable* executable = nullptr;
  ASSERT_EQ(compile(sum.graph, &executable), TRANSOM_OK) << error_.text;
  const transom_binding inputs[] = {upload<float>({1, 2, 3}), upload<float>({-1, -2, -2.5f})}, output = allocate(12);
  const transom_binding arena = allocate(128);
  const transom_launch launch{.struct_size = sizeof launch,
                              .stream = stream_,
                              .inputs = inputs,
                              .inputs_count = 2,
                              .outputs = &output,
                              .outputs_count = 1,
                              .arena = arena};
  ASSERT_EQ(plugin_.run(executable, &launch, &error_), TRANSOM_OK) << error_.text;
  EXPECT_EQ(download<float>(output, 3), (std::vector<float>{1, 1, std::exp(0.5f)}));
  EXPECT_EQ(download<float>({arena.buffer, 64}, 3), (std::vector<float>{0, 0, 0.5f}));
  EXPECT_STREQ(plugin_.executable_describe(executable), "0 add: float64 reference\n1 exp: float64 reference\n");
}

TEST_F(Reference, RoundsEveryOutputToItsType) {
  const SumGraph sum(TRANSOM_BFLOAT16);
  transom_executable* executable = nullptr;
  ASSERT_EQ(compile(sum.graph, &executable), TRANSOM_OK) << error_.text;
  const std::vector<BFloat16> x{1.0f, 256.0f, 0.0f}, y{0.00390625f, 1.0f, 0.0f};
  const transom_binding inputs[] = {upload(x), upload(y)}, output = allocate(6), arena = allocate(128);
  const transom_launch launch{.struct_size = sizeof launch,
                              .stream = stream_,
                              .inputs = inputs,
                              .inputs_count = 2,
                              .outputs = &output,
                              .outputs_count = 1,
                              .arena = arena};
  ASSERT_EQ(plugin_.run(executable, &launch, &error_), TRANSOM_OK) << error_.text;
  const std::vector<BFloat16> sums = download<BFloat16>({arena.buffer, 64}, 3);
  EXPECT_EQ(float(sums[0]), 1.0f);    // 1 + 2^-8 is a tie: to even
  EXPECT_EQ(float(sums[1]), 256.0f);  // as is 257
  EXPECT_EQ(float(download<BFloat16>(output, 3)[0]), float(BFloat16(std::exp(1.0f))));
}

TEST_F(Reference, CallsTheProfilerForEachNode) {
  const SumGraph sum(TRANSOM_FLOAT32);
  transom_executable* executable = nullptr;
  ASSERT_EQ(compile(sum.graph, &executable), TRANSOM_OK);
  std::vector<size_t> nodes;
  const auto note = [](void* user, size_t node, const char*, uint64_t begin, uint64_t end) {
    EXPECT_LE(begin, end);
    static_cast<std::vector<size_t>*>(user)->push_back(node);
  };
  ASSERT_EQ(plugin_.profile(device_, note, &nodes, &error_), TRANSOM_OK);
  const transom_binding inputs[] = {upload<float>({1, 2, 3}), upload<float>({1, 2, 3})}, output = allocate(12);
  const transom_launch launch{.struct_size = sizeof launch,
                              .stream = stream_,
                              .inputs = inputs,
                              .inputs_count = 2,
                              .outputs = &output,
                              .outputs_count = 1,
                              .arena = allocate(128)};
  ASSERT_EQ(plugin_.run(executable, &launch, &error_), TRANSOM_OK);
  ASSERT_EQ(plugin_.profile(device_, nullptr, nullptr, &error_), TRANSOM_OK);
  ASSERT_EQ(plugin_.run(executable, &launch, &error_), TRANSOM_OK);
  EXPECT_EQ(nodes, (std::vector<size_t>{0, 1}));
}

TEST_F(Reference, RefusesGraphsThatBreakTheInterface) {
  transom_executable* executable = nullptr;
  {
    SumGraph graph(TRANSOM_FLOAT32);
    graph.nodes[0].op = "no_such_operation";
    EXPECT_EQ(compile(graph.graph, &executable), TRANSOM_INVALID_ARGUMENT);
    graph.nodes[0].op = "softmax";  // a composite, which it did not claim
    EXPECT_EQ(compile(graph.graph, &executable), TRANSOM_INVALID_ARGUMENT);
  }
  {
    SumGraph graph(TRANSOM_FLOAT32);
    graph.values[2].arena_offset = 128;
    EXPECT_EQ(compile(graph.graph, &executable), TRANSOM_INVALID_ARGUMENT);
    graph.values[2].arena_offset = -1;
    EXPECT_EQ(compile(graph.graph, &executable), TRANSOM_INVALID_ARGUMENT);
  }
  {
    SumGraph graph(TRANSOM_FLOAT32);
    graph.values[3].dtype = TRANSOM_FLOAT64;  // not what exp of f32 gives
    EXPECT_EQ(compile(graph.graph, &executable), TRANSOM_INVALID_ARGUMENT);
    graph.values[3].dtype = 99;
    EXPECT_EQ(compile(graph.graph, &executable), TRANSOM_INVALID_ARGUMENT);
  }
  {
    SumGraph graph(TRANSOM_FLOAT32);
    graph.sum_inputs[1] = 17;
    EXPECT_EQ(compile(graph.graph, &executable), TRANSOM_INVALID_ARGUMENT);
  }
  EXPECT_EQ(executable, nullptr);
}

TEST_F(Reference, RefusesBuffersThatAreTooSmallOrOnlyRead) {
  const SumGraph sum(TRANSOM_FLOAT32);
  transom_executable* executable = nullptr;
  ASSERT_EQ(compile(sum.graph, &executable), TRANSOM_OK);
  const float memory[3] = {1, 2, 3};
  transom_buffer* imported = nullptr;
  ASSERT_EQ(plugin_.buffer_import(device_, memory, sizeof memory, &imported, &error_), TRANSOM_OK);
  buffers_.push_back(imported);
  const transom_binding inputs[] = {{imported, 0}, {imported, 0}};
  transom_binding output = allocate(8);
  const transom_launch launch{.struct_size = sizeof launch,
                              .stream = stream_,
                              .inputs = inputs,
                              .inputs_count = 2,
                              .outputs = &output,
                              .outputs_count = 1,
                              .arena = allocate(128)};
  EXPECT_EQ(plugin_.run(executable, &launch, &error_), TRANSOM_INVALID_ARGUMENT);
  output = {imported, 0};
  EXPECT_EQ(plugin_.run(executable, &launch, &error_), TRANSOM_INVALID_ARGUMENT);
  output = allocate(12);
  EXPECT_EQ(plugin_.run(executable, &launch, &error_), TRANSOM_OK) << error_.text;
  EXPECT_EQ(plugin_.copy_to_device(stream_, memory, {imported, 0}, 4, &error_), TRANSOM_INVALID_ARGUMENT);
  float out[4];
  EXPECT_EQ(plugin_.copy_to_host(stream_, output, out, 16, &error_), TRANSOM_INVALID_ARGUMENT);
}

TEST_F(Reference, CountsItsMemory) {
  transom_memory_statistics before{.struct_size = sizeof before}, after{.struct_size = sizeof after};
  ASSERT_EQ(plugin_.memory_statistics(device_, &before, &error_), TRANSOM_OK);
  transom_buffer* buffer = nullptr;
  ASSERT_EQ(plugin_.buffer_allocate(device_, 1000, &buffer, &error_), TRANSOM_OK);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(plugin_.buffer_host_pointer(buffer)) % 64, 0u);
  ASSERT_EQ(plugin_.memory_statistics(device_, &after, &error_), TRANSOM_OK);
  EXPECT_EQ(after.bytes_in_use - before.bytes_in_use, 1000u);
  plugin_.buffer_free(buffer);
  ASSERT_EQ(plugin_.memory_statistics(device_, &after, &error_), TRANSOM_OK);
  EXPECT_EQ(after.bytes_in_use, before.bytes_in_use);
#ifndef __SANITIZE_ADDRESS__  // which ends the program instead
  EXPECT_EQ(plugin_.buffer_allocate(device_, size_t{1} << 60, &buffer, &error_), TRANSOM_OUT_OF_MEMORY);
#endif
}

}  // namespace
}  // namespace transom
