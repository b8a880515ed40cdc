// SPDX-License-Identifier: Apache-2.0
// The tests of the GPU backend run on OpenCL, for which PoCL makes a device of any processor (scripts/setup installs
// it). Where no OpenCL device is, they are skipped with what the plugin says.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "backends/harness.h"

namespace transom::backend_test {

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
    EXPECT_EQ(program.error, "");
    std::vector<Tensor> results = program.run(inputs);
    EXPECT_EQ(program.error, "");
    return results;
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
  uint64_t kernels_compiled() {
    const std::string report = plugin_->table.device_report(plugin_->device);
    const std::string key = "\"kernels_compiled\": ", read = "\"kernels_read\": ";
    return std::stoull(report.substr(report.find(key) + key.size())) +
           std::stoull(report.substr(report.find(read) + read.size()));
  }

  Plugin* plugin_ = nullptr;
};

}  // namespace transom::backend_test
