// SPDX-License-Identifier: Apache-2.0
// Threads of the host that use the plugin at the same time, each with a stream, programs and memory of its own, on one
// device or on handles of their own, and weights that they share: every result has the bits of one thread alone.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "backends/harness.h"

namespace transom::backend_test {
namespace {

// The plugin with a stream of its own on the device of another handle.
class SharedDevice {
 public:
  explicit SharedDevice(const Plugin& owner) : plugin_("cpu"), device_(plugin_.device), stream_(plugin_.stream) {
    plugin_.device = owner.device;
    transom_error error{};
    EXPECT_EQ(plugin_.table.stream_create(plugin_.device, &plugin_.stream, &error), TRANSOM_OK) << error.text;
  }
  ~SharedDevice() {
    plugin_.table.stream_destroy(plugin_.stream);
    plugin_.device = device_;
    plugin_.stream = stream_;
  }
  Plugin& plugin() { return plugin_; }

 private:
  Plugin plugin_;
  transom_device* device_;
  transom_stream* stream_;
};

struct ThreadedCase {
  std::function<void(Graph&)> build;
  std::vector<Tensor> inputs;
};

ThreadedCase one_node(const char* op, std::vector<Tensor> inputs, std::vector<bool> frozen, transom_dtype dtype,
                      Shape shape, std::vector<Attribute> attributes = {}) {
  return {[=](Graph& graph) {
            std::vector<int> values;
            for (size_t i = 0; i < inputs.size(); ++i) values.push_back(graph.input(inputs[i], frozen[i]));
            graph.output(graph.node(op, values, dtype, shape, attributes));
          },
          inputs};
}

// exp(x) * 0.5 + x, as a fusion that may become machine code; `factor` makes it one of its own.
const Graph& fused(transom_dtype dtype, int64_t count, double factor) {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<Graph>> kept;
  auto inner = std::make_unique<Graph>();
  const int x = inner->input(dtype, {count});
  const int scalar = inner->node("constant", {}, dtype, {}, {{"value", factor}, {"dtype", dtype}});
  const int reshaped = inner->node("reshape", {scalar}, dtype, {1}, {{"shape", Shape{1}}});
  const int constant = inner->node("broadcast", {reshaped}, dtype, {count});
  const int grown = inner->node("exp", {x}, dtype, {count});
  inner->output(inner->node("add", {inner->node("mul", {grown, constant}, dtype, {count}), x}, dtype, {count}));
  const std::lock_guard lock(mutex);
  return *kept.emplace_back(std::move(inner));
}

std::vector<ThreadedCase> cases() {
  const auto f32 = TRANSOM_FLOAT32;
  std::vector<ThreadedCase> made;
  for (const int64_t m : {1, 7, 40, 130}) {
    const Tensor x = numbers(f32, {m, 64}, -1, 1, static_cast<uint64_t>(m)), w = numbers(f32, {96, 64}, -1, 1, 2);
    made.push_back(one_node("linear", {x, w}, {false, true}, f32, {m, 96}));
    made.push_back(one_node("linear", {x, w}, {false, false}, f32, {m, 96}));
    made.push_back(one_node("quantized_linear", {x, w}, {false, true}, f32, {m, 96}, {{"transposed", 0}}));
  }
  for (const transom_dtype dtype : {f32, TRANSOM_BFLOAT16}) {
    const Tensor q = numbers(dtype, {2, 40, 2, 16}, -1, 1, 1), k = numbers(dtype, {2, 40, 2, 16}, -1, 1, 2),
                 v = numbers(dtype, {2, 40, 2, 16}, -1, 1, 3);
    made.push_back(one_node(
        "attention", {q, k, v}, {false, false, false}, dtype, {2, 40, 2, 16},
        {{"scale", 0.25}, {"soft_cap", 0.0}, {"causal", 1}, {"sliding_window", 0}, {"biased", 0}, {"dropout", 0.0}}));
    const Tensor x = numbers(dtype, {70'000}, -2, 2, 5);
    made.push_back({[=](Graph& graph) {
                      const int input = graph.input(x);
                      graph.output(graph.fusion({input}, fused(dtype, 70'000, 0.5))[0]);
                    },
                    {x}});
  }
  const Tensor rows = numbers(f32, {300, 70});
  made.push_back(one_node("softmax", {rows}, {false}, f32, {300, 70}));
  made.push_back(one_node("reduce_sum", {rows}, {false}, f32, {70}, {{"axes", Shape{0}}}));
  return made;
}

std::vector<double> result_of(Plugin& plugin, const ThreadedCase& tried) {
  Graph graph;
  tried.build(graph);
  Program program(plugin, graph);
  const std::vector<Tensor> results = program.run(tried.inputs);
  if (results.empty()) throw std::runtime_error(program.error);
  return results[0].values;
}

// Every thread makes and runs all cases, each from another one on.
void expect_the_results_of_one_thread(const std::vector<Plugin*>& plugins, int rounds) {
  const std::vector<ThreadedCase> tried = cases();
  std::vector<std::vector<double>> expected;
  for (const ThreadedCase& each : tried) expected.push_back(result_of(*plugins[0], each));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < plugins.size(); ++thread)
    threads.emplace_back([&, thread] {
      for (size_t i = 0; i < static_cast<size_t>(rounds) * tried.size(); ++i) {
        const size_t pick = (i + thread * 5) % tried.size();
        try {
          if (result_of(*plugins[thread], tried[pick]) != expected[pick]) ++wrong;
        } catch (const std::exception& error) {
          ADD_FAILURE() << "case " << pick << ": " << error.what();
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(SeveralThreads, OnOneDevice) {
  Plugin owner("cpu");
  std::vector<std::unique_ptr<SharedDevice>> handles;
  std::vector<Plugin*> plugins;
  for (int i = 0; i < 4; ++i) plugins.push_back(&handles.emplace_back(std::make_unique<SharedDevice>(owner))->plugin());
  expect_the_results_of_one_thread(plugins, 4);
}

TEST(SeveralThreads, OnDevicesOfTheirOwn) {
  std::vector<std::unique_ptr<Plugin>> handles;
  std::vector<Plugin*> plugins;
  for (int i = 0; i < 4; ++i) plugins.push_back(handles.emplace_back(std::make_unique<Plugin>("cpu")).get());
  expect_the_results_of_one_thread(plugins, 4);
}

// One weight, as of a file that is mapped: packed for all who ask at once.
TEST(SeveralThreads, ShareAFrozenWeight) {
  Plugin owner("cpu");
  const Tensor w = numbers(TRANSOM_FLOAT32, {200, 96}, -1, 1, 2);
  std::vector<std::unique_ptr<SharedDevice>> handles;
  for (int i = 0; i < 4; ++i) handles.push_back(std::make_unique<SharedDevice>(owner));
  for (const char* op : {"linear", "quantized_linear"})
    for (const int64_t m : {5, 12, 64, 100}) {
      transom_error error{};
      transom_binding weight{nullptr, 0};
      std::vector<char> bytes(w.values.size() * sizeof(float));
      encode(w, bytes.data());
      ASSERT_EQ(owner.table.buffer_import(owner.device, bytes.data(), bytes.size(), &weight.buffer, &error),
                TRANSOM_OK);
      const Tensor x = numbers(TRANSOM_FLOAT32, {m, 96}, -1, 1, static_cast<uint64_t>(m));
      std::vector<std::vector<double>> found(handles.size() * 3);
      std::vector<std::thread> threads;
      for (size_t thread = 0; thread < handles.size(); ++thread)
        threads.emplace_back([&, thread] {
          Plugin& plugin = handles[thread]->plugin();
          Graph graph;
          const int input = graph.input(x), frozen = graph.input(w, true);
          std::vector<Attribute> attributes;
          if (std::string(op) == "quantized_linear") attributes.emplace_back("transposed", 0);
          graph.output(graph.node(op, {input, frozen}, TRANSOM_FLOAT32, {m, 200}, attributes));
          Program program(plugin, graph);
          transom_error message{};
          transom_binding activation{nullptr, 0};
          plugin.table.buffer_allocate(plugin.device, x.values.size() * sizeof(float), &activation.buffer, &message);
          encode(x, plugin.table.buffer_host_pointer(activation.buffer));
          for (size_t i = 0; i < 3; ++i) found[thread * 3 + i] = program.run_buffers({activation, weight})[0].values;
          plugin.table.buffer_free(activation.buffer);
        });
      for (std::thread& thread : threads) thread.join();
      for (const std::vector<double>& values : found) EXPECT_EQ(values, found[0]) << op << " " << m;
      EXPECT_FALSE(found[0].empty());
      owner.table.buffer_free(weight.buffer);
    }
}

// A kernel that was looked for on the disk alone, for a caller that interprets meanwhile, is compiled for one that
// waits, who would else wait forever.
TEST(SeveralThreads, WhoWaitsForAKernelThatIsLookedForGetsIt) {
  setenv("TRANSOM_KERNEL_CACHE", "off", 1);
  setenv("TRANSOM_CODEGEN", "background", 1);
  Plugin owner("cpu");
  SharedDevice first(owner), second(owner);
  const int64_t count = 1'500'000;  // enough to be looked for, too little to be compiled
  const Tensor x = numbers(TRANSOM_FLOAT32, {count}, -1, 1, 1);
  for (int i = 0; i < 12; ++i) {
    setenv("TRANSOM_CODEGEN", "background", 1);
    // Each has a region of its own: the C form of a graph is made anew when it is run.
    const Graph &inner = fused(TRANSOM_FLOAT32, count, 0.25 + i), &same = fused(TRANSOM_FLOAT32, count, 0.25 + i);
    Graph one, other;
    for (auto& [graph, region] : {std::pair{&one, &inner}, {&other, &same}}) {
      const int input = graph->input(x);
      graph->output(graph->fusion({input}, *region)[0]);
    }
    Program interpreted(first.plugin(), one);
    std::vector<double> found;
    std::thread runs([&] { found = interpreted.run({x})[0].values; });
    setenv("TRANSOM_CODEGEN", "wait", 1);
    Program waits(second.plugin(), other);
    const std::vector<double> waited = waits.run({x})[0].values;
    runs.join();
    EXPECT_EQ(waited, found);
  }
  unsetenv("TRANSOM_CODEGEN");
  unsetenv("TRANSOM_KERNEL_CACHE");
}

}  // namespace
}  // namespace transom::backend_test
