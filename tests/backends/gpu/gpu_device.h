// SPDX-License-Identifier: Apache-2.0
// The tests of the GPU backend run on OpenCL, for which PoCL makes a device of any processor (scripts/setup installs
// it). Where no OpenCL device is, they are skipped with what the plugin says.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>

#include "backends/harness.h"
#include "support/folders.h"

namespace transom::backend_test {

// From here on the plugins open the emulated drivers of the build tree; with `unless_named`, but for those that the
// environment names, so that the golden cases run on a device that is there. OpenCL's is always left if it is named.
inline void use_emulated_drivers(bool unless_named = false) {
  const std::string folder = test::build_folder() + "/emulators/";
  ::setenv("TRANSOM_OPENCL_LIBRARY", (folder + "libOpenCL.so.1").c_str(), 0);
  for (const char* name : {"TRANSOM_CUDA_LIBRARY", "TRANSOM_NVRTC_LIBRARY", "TRANSOM_NCCL_LIBRARY"})
    ::setenv(name, (folder + "libcuda.so.1").c_str(), !unless_named);
  for (const char* name : {"TRANSOM_HIP_LIBRARY", "TRANSOM_HIPRTC_LIBRARY", "TRANSOM_RCCL_LIBRARY"})
    ::setenv(name, (folder + "libamdhip64.so").c_str(), !unless_named);
}

// A number of the device's report.
inline uint64_t reported(const Plugin& plugin, const std::string& name) {
  const std::string report = plugin.table.device_report(plugin.device), key = "\"" + name + "\": ";
  return std::stoull(report.substr(report.find(key) + key.size()));
}

// Runs a compiled graph whose operands and whose result all lie `offset` bytes behind a buffer's begin; `stream`: null
// for the plugin's.
inline std::vector<double> run_at(Plugin& plugin, transom_executable* executable, const std::vector<Tensor>& inputs,
                                  transom_dtype dtype, const Shape& shape, size_t offset,
                                  transom_stream* stream = nullptr) {
  const transom_plugin& table = plugin.table;
  if (!stream) stream = plugin.stream;
  transom_error error{};
  std::vector<transom_binding> places;
  const auto place = [&](size_t bytes) {
    places.push_back({nullptr, offset});
    EXPECT_EQ(table.buffer_allocate(plugin.device, bytes + offset, &places.back().buffer, &error), TRANSOM_OK);
    return places.back();
  };
  for (const Tensor& value : inputs) {
    std::vector<std::byte> bytes(value.values.size() * element_size(value.dtype));
    encode(value, bytes.data());
    EXPECT_EQ(table.copy_to_device(stream, bytes.data(), place(bytes.size()), bytes.size(), &error), TRANSOM_OK);
    EXPECT_EQ(table.stream_synchronize(stream, &error), TRANSOM_OK);
  }
  Tensor result{dtype, shape, {}};
  std::vector<std::byte> bytes(static_cast<size_t>(result.count()) * element_size(dtype));
  const transom_binding out = place(bytes.size());
  const transom_launch launch = {sizeof(transom_launch), stream, places.data(), inputs.size(), &out, 1, {nullptr, 0}};
  EXPECT_EQ(table.run(executable, &launch, &error), TRANSOM_OK) << error.text;
  EXPECT_EQ(table.copy_to_host(stream, out, bytes.data(), bytes.size(), &error), TRANSOM_OK) << error.text;
  EXPECT_EQ(table.stream_synchronize(stream, &error), TRANSOM_OK) << error.text;
  for (const transom_binding& each : places) table.buffer_free(each.buffer);
  return decode(dtype, shape, bytes.data()).values;
}

// What a program gives; one that does not compile or run ends the test, since there is nothing to compare.
inline std::vector<Tensor> results_of(Program& program, const std::vector<Tensor>& inputs) {
  if (!program.error.empty()) throw std::runtime_error("the program was not compiled: " + program.error);
  std::vector<Tensor> results = program.run(inputs);
  if (!program.error.empty()) throw std::runtime_error("the program did not run: " + program.error);
  return results;
}

// A test on each of the plugins, with emulated drivers.
class OnEachGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    use_emulated_drivers();
    try {
      plugin_ = std::make_unique<Plugin>(GetParam());
    } catch (const std::exception& error) {
      GTEST_SKIP() << error.what();
    }
  }
  std::unique_ptr<Plugin> plugin_;
};

// A test on the emulated devices of every kind of matrix unit.
struct MatrixUnitDevice {
  const char *plugin, *chip;
};
inline void PrintTo(const MatrixUnitDevice& device, std::ostream* out) { *out << device.plugin << " " << device.chip; }
struct NameOfMatrixUnit {
  std::string operator()(const testing::TestParamInfo<MatrixUnitDevice>& info) const {
    return std::string(info.param.plugin) + info.param.chip;
  }
};
inline constexpr MatrixUnitDevice kMatrixUnitDevices[] = {
    {"opencl", ""}, {"cuda", ""}, {"rocm", "gfx942"}, {"rocm", "gfx90a"}, {"rocm", "gfx1100"}};

class OnEachMatrixUnit : public testing::TestWithParam<MatrixUnitDevice> {
 protected:
  void SetUp() override {
    use_emulated_drivers();
    ::setenv("TRANSOM_EMULATED_GPU_CHIP", GetParam().chip, 1);
    try {
      plugin_ = std::make_unique<Plugin>(GetParam().plugin);
    } catch (const std::exception& error) {
      GTEST_SKIP() << error.what();
    }
  }
  void TearDown() override { ::unsetenv("TRANSOM_EMULATED_GPU_CHIP"); }

  // One node. What it became is in description_.
  std::vector<Tensor> run(const char* op, const std::vector<Tensor>& inputs,
                          std::vector<std::pair<transom_dtype, Shape>> outputs, std::vector<Attribute> attributes) {
    Graph graph;
    std::vector<int> values;
    for (const Tensor& input : inputs) values.push_back(graph.input(input));
    for (const int output : graph.nodes(op, values, std::move(outputs), std::move(attributes))) graph.output(output);
    Program program(*plugin_, graph);
    std::vector<Tensor> results = results_of(program, inputs);
    description_ = program.describe();
    return results;
  }
  std::unique_ptr<Plugin> plugin_;
  std::string description_;
};

// The plugin with its device, one for all tests of the process; null with `reason` where there is none.
inline Plugin* opencl(std::string* reason) {
  static std::string why;
  static const std::unique_ptr<Plugin> plugin = []() -> std::unique_ptr<Plugin> {
    try {
      return std::make_unique<Plugin>("opencl");
    } catch (const std::exception& error) {
      why = error.what();
      return nullptr;
    }
  }();
  *reason = why;
  return plugin.get();
}

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    plugin_ = opencl(&reason);
    if (!plugin_) GTEST_SKIP() << "no OpenCL device: " << reason;
  }

  // Runs a graph whose outputs are marked.
  std::vector<Tensor> run(const Graph& graph, const std::vector<Tensor>& inputs) {
    Program program(*plugin_, graph);
    return results_of(program, inputs);
  }
  // One node.
  std::vector<Tensor> run(const char* op, const std::vector<Tensor>& inputs,
                          std::vector<std::pair<transom_dtype, Shape>> outputs,
                          std::vector<Attribute> attributes = {}) {
    Graph graph;
    std::vector<int> values;
    for (const Tensor& input : inputs) values.push_back(graph.input(input));
    for (const int output : graph.nodes(op, values, std::move(outputs), std::move(attributes))) graph.output(output);
    return run(graph, inputs);
  }
  uint64_t kernels_compiled() { return reported(*plugin_, "kernels_compiled") + reported(*plugin_, "kernels_read"); }

  Plugin* plugin_ = nullptr;
};

}  // namespace transom::backend_test
