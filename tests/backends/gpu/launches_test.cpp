// SPDX-License-Identifier: Apache-2.0
// How many launches the work takes, and that how it is launched changes no bit: kernels that move vectors, rows held in
// registers, launches that are merged. The emulated drivers of NVIDIA and AMD lose the device where a vector is not at
// a multiple of its size.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "gpu_device.h"

namespace transom::backend_test {
namespace {

class GpuLaunches : public OnEachGpu {
 protected:
  std::vector<Tensor> run(const Graph& graph, const std::vector<Tensor>& inputs, const std::vector<int>& donated = {}) {
    Program program(*plugin_, graph);
    EXPECT_EQ(program.error, "");
    const uint64_t before = reported(*plugin_, "launches");
    std::vector<Tensor> results = donated.empty() ? program.run(inputs) : program.run_donated(inputs, donated);
    EXPECT_EQ(program.error, "");
    launches_ = reported(*plugin_, "launches") - before;
    return results;
  }
  std::vector<Tensor> run(const char* op, const std::vector<Tensor>& inputs,
                          std::vector<std::pair<transom_dtype, Shape>> outputs, std::vector<Attribute> attributes) {
    Graph graph;
    std::vector<int> values;
    for (const Tensor& input : inputs) values.push_back(graph.input(input));
    for (const int output : graph.nodes(op, values, std::move(outputs), std::move(attributes))) graph.output(output);
    return run(graph, inputs);
  }
  uint64_t launches_ = 0;
};

TEST_P(GpuLaunches, RowsAndTheirGradients) {
  for (const int64_t rows : {3, 300}) {  // pieces of rows: one, and more than are added at once
    const Tensor x = numbers(TRANSOM_FLOAT32, {rows, 40}), dy = numbers(TRANSOM_FLOAT32, {rows, 40}, -1, 1, 2),
                 scale = numbers(TRANSOM_FLOAT32, {40}, -1, 1, 3), bias = numbers(TRANSOM_FLOAT32, {40}, -1, 1, 4);
    const std::pair<transom_dtype, Shape> all = {TRANSOM_FLOAT32, {rows, 40}}, one = {TRANSOM_FLOAT32, {40}};
    run("softmax", {x}, {all}, {});
    EXPECT_EQ(launches_, 1u);
    run("softmax_gradient", {x, dy}, {all}, {});
    EXPECT_EQ(launches_, 1u);
    run("layer_norm", {x, scale, bias}, {all}, {{"epsilon", 1e-5}});
    EXPECT_EQ(launches_, 1u);
    const auto found = run("layer_norm_gradient", {x, scale, dy}, {all, one, one}, {{"epsilon", 1e-5}});
    EXPECT_EQ(launches_, 2u);
    for (size_t i = 0; i < 40; ++i) {
      double sum = 0;
      for (size_t row = 0; row < static_cast<size_t>(rows); ++row) sum += dy.values[row * 40 + i];
      EXPECT_NEAR(found[2].values[i], sum, 1e-4) << i;
    }
    run("rms_norm_gradient", {x, scale, dy}, {all, one}, {{"epsilon", 1e-5}});
    EXPECT_EQ(launches_, 2u);
  }
}

// As the kernels add: 256 threads, each its vectors of four elements in order, then by halves.
float sum_of_row(const std::vector<float>& terms) {
  std::vector<float> sums(256, 0.0f);
  for (size_t i = 0; i < terms.size(); ++i) sums[i / 4 % 256] += terms[i];
  for (size_t span = 128; span > 0; span /= 2)
    for (size_t i = 0; i < span; ++i) sums[i] += sums[i + span];
  return sums[0];
}

TEST_P(GpuLaunches, RowsHeldInRegistersOrNotHaveTheBitsOfOneOrder) {
  for (const int64_t length : {9, 1024, 1025, 4096, 4100}) {
    const Tensor y = numbers(TRANSOM_FLOAT32, {2, length}), dy = numbers(TRANSOM_FLOAT32, {2, length}, -1, 1, 2);
    const Tensor found = run("softmax_gradient", {y, dy}, {{TRANSOM_FLOAT32, {2, length}}}, {})[0];
    for (size_t row = 0; row < 2; ++row) {
      const size_t base = row * static_cast<size_t>(length);
      const auto a = [&](size_t i) { return static_cast<float>(y.values[base + i]); };
      const auto b = [&](size_t i) { return static_cast<float>(dy.values[base + i]); };
      std::vector<float> terms;
      for (size_t i = 0; i < static_cast<size_t>(length); ++i) terms.push_back(a(i) * b(i));
      const float total = sum_of_row(terms);
      for (size_t i = 0; i < static_cast<size_t>(length); ++i) {
        const float difference = b(i) - total;
        ASSERT_EQ(static_cast<float>(found.values[base + i]), a(i) * difference) << length << " at " << i;
      }
    }
  }
}

TEST_P(GpuLaunches, VectorsAreMovedWhereMemoryIsAlignedAndElementsElsewhere) {
  const transom_plugin& table = plugin_->table;
  transom_error error{};
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_FLOAT64, TRANSOM_UINT8}) {
    const bool floating = dtype != TRANSOM_UINT8;
    const size_t element = element_size(dtype);
    for (const int64_t count : {1, 5, 64, 1003}) {
      Graph graph;
      const Tensor x = numbers(dtype, {count}, floating ? -2 : 0, floating ? 2 : 9),
                   y = numbers(dtype, {count}, floating ? -2 : 0, floating ? 2 : 9, 2);
      graph.output(graph.node("sub", {graph.input(x), graph.input(y)}, dtype, {count}));
      transom_executable* executable = nullptr;
      ASSERT_EQ(table.compile(plugin_->device, graph.view(), &executable, &error), TRANSOM_OK) << error.text;
      const size_t bytes = static_cast<size_t>(count) * element, room = bytes + 64;
      transom_binding places[3] = {};
      for (transom_binding& place : places)
        ASSERT_EQ(table.buffer_allocate(plugin_->device, room, &place.buffer, &error), TRANSOM_OK);
      std::vector<char> expected;
      for (const size_t shift : {size_t{0}, element, 3 * element, size_t{16}}) {
        for (size_t moved = 0; moved < 3; ++moved) {  // one of x, y and the result
          for (size_t i = 0; i < 3; ++i) places[i].offset = i == moved ? shift : 0;
          std::vector<char> sent(bytes), back(bytes);
          for (size_t i = 0; i < 2; ++i) {
            encode(i ? y : x, sent.data());
            ASSERT_EQ(table.copy_to_device(plugin_->stream, sent.data(), places[i], bytes, &error), TRANSOM_OK);
            ASSERT_EQ(table.stream_synchronize(plugin_->stream, &error), TRANSOM_OK);
          }
          const transom_launch launch = {sizeof(transom_launch), plugin_->stream, places, 2, places + 2, 1, {}};
          ASSERT_EQ(table.run(executable, &launch, &error), TRANSOM_OK) << error.text;
          ASSERT_EQ(table.copy_to_host(plugin_->stream, places[2], back.data(), bytes, &error), TRANSOM_OK);
          ASSERT_EQ(table.stream_synchronize(plugin_->stream, &error), TRANSOM_OK) << error.text;
          if (expected.empty()) expected = back;
          EXPECT_EQ(back, expected) << count << " of " << element << " bytes, " << moved << " at " << shift;
        }
      }
      const Tensor result = decode(dtype, {count}, expected.data());
      for (size_t i = 0; i < result.values.size() && floating; ++i)
        EXPECT_EQ(result.values[i], rounded(dtype, x.values[i] - y.values[i])) << i;
      for (const transom_binding& place : places) table.buffer_free(place.buffer);
      table.executable_destroy(executable);
    }
  }
}

// p - rate * g and 0.5 * m + g, as one fusion a parameter.
Graph update_of(int64_t count) {
  Graph inner;
  const Shape shape = {count};
  const int p = inner.input(TRANSOM_FLOAT32, shape), m = inner.input(TRANSOM_FLOAT32, shape),
            g = inner.input(TRANSOM_FLOAT32, shape), rate = inner.input(TRANSOM_FLOAT32, {1});
  const int spread = inner.node("broadcast", {rate}, TRANSOM_FLOAT32, shape, {{"shape", shape}});
  const int step = inner.node("mul", {spread, g}, TRANSOM_FLOAT32, shape);
  const int half = inner.node("constant", {}, TRANSOM_FLOAT32, shape,
                              {{"shape", shape}, {"dtype", TRANSOM_FLOAT32}, {"value", 0.5}, {"int_value", 0}});
  inner.output(inner.node("sub", {p, step}, TRANSOM_FLOAT32, shape));
  inner.output(inner.node("add", {inner.node("mul", {half, m}, TRANSOM_FLOAT32, shape), g}, TRANSOM_FLOAT32, shape));
  return inner;
}

TEST_P(GpuLaunches, UpdatesOfAllParametersAreOne) {
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < 40; ++i) counts.push_back(2 + i % 8 * 61);
  const Tensor rate = tensor(TRANSOM_FLOAT32, {1}, {0.125});
  std::vector<Graph> updates;
  for (const int64_t count : counts) updates.push_back(update_of(count));
  Graph graph;
  std::vector<Tensor> inputs = {rate};
  std::vector<int> donated;
  const int shared = graph.input(rate);
  std::vector<std::vector<Tensor>> expected;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto seed = static_cast<uint64_t>(3 * i);
    const Tensor p = numbers(TRANSOM_FLOAT32, {counts[i]}, -2, 2, seed + 1),
                 m = numbers(TRANSOM_FLOAT32, {counts[i]}, -2, 2, seed + 2),
                 g = numbers(TRANSOM_FLOAT32, {counts[i]}, -2, 2, seed + 3);
    const std::vector<int> values = {graph.input(p), graph.input(m), graph.input(g), shared};
    for (const int output : graph.fusion(values, updates[i])) graph.output(output);
    donated.push_back(static_cast<int>(inputs.size())), donated.push_back(static_cast<int>(inputs.size()) + 1);
    inputs.insert(inputs.end(), {p, m, g});
    Graph alone;
    const std::vector<int> own = {alone.input(p), alone.input(m), alone.input(g), alone.input(rate)};
    for (const int output : alone.fusion(own, updates[i])) alone.output(output);
    expected.push_back(run(alone, {p, m, g, rate}));
    EXPECT_EQ(launches_, 1u);
  }
  // On OpenCL the arguments of a launch take 1024 bytes: 17 of these updates.
  const uint64_t most = std::string(GetParam()) == "opencl" ? 3 : 1;
  for (const bool in_place : {false, true}) {
    const std::vector<Tensor> found = run(graph, inputs, in_place ? donated : std::vector<int>());
    EXPECT_LE(launches_, most);
    for (size_t i = 0; i < counts.size(); ++i)
      for (size_t k = 0; k < 2; ++k) EXPECT_EQ(found[2 * i + k].values, expected[i][k].values) << i << " " << k;
  }
  // A run may give a result the memory of what another update has read before: then they go in order, one by one.
  const std::vector<Tensor> before = run(graph, inputs);
  std::vector<int> crossed(donated.size(), -1);
  crossed[16] = donated[0];  // the ninth parameter is as large as the first, and updated after it
  const std::vector<Tensor> after = run(graph, inputs, crossed);
  // Of several launches only the one whose parts cross is taken apart.
  EXPECT_EQ(launches_, most == 1 ? counts.size() : 17 + (most - 1));
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(after[i].values, before[i].values) << i;
}

TEST_P(GpuLaunches, WhatDependsOnAnotherStaysApart) {
  Graph graph;
  const Tensor x = numbers(TRANSOM_FLOAT32, {50});
  int value = graph.input(x);
  for (int i = 0; i < 4; ++i)
    value = graph.node("abs", {graph.node("neg", {value}, TRANSOM_FLOAT32, {50})}, TRANSOM_FLOAT32, {50});
  graph.output(value);
  const Tensor found = run(graph, {x})[0];
  EXPECT_EQ(launches_, 8u);
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ(found.values[i], std::abs(x.values[i]));

  Graph chain;  // the same kernel each time
  value = chain.input(x);
  for (int i = 0; i < 3; ++i) value = chain.node("neg", {value}, TRANSOM_FLOAT32, {50});
  chain.output(value);
  EXPECT_EQ(run(chain, {x})[0].values[7], -x.values[7]);
  EXPECT_EQ(launches_, 3u);
}

INSTANTIATE_TEST_SUITE_P(All, GpuLaunches, testing::Values("opencl", "cuda", "rocm"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace transom::backend_test
