// SPDX-License-Identifier: Apache-2.0
// OpenCL devices without shared virtual memory: kernels take memory objects with offsets, and give the same bits.
#include <cstdlib>

#include "gpu_device.h"

namespace transom::backend_test {
namespace {

TEST_F(OnGpu, MemoryObjectsGiveTheSameBitsAsAddresses) {
  const Tensor x = numbers(TRANSOM_FLOAT32, {70, 20}), w = numbers(TRANSOM_FLOAT32, {3, 20}, -1, 1, 2);
  Graph graph;
  const int a = graph.input(x), b = graph.input(w);
  const int product = graph.node("linear", {a, b}, TRANSOM_FLOAT32, {70, 3});
  const int turned = graph.node("permute", {product}, TRANSOM_FLOAT32, {3, 70}, {{"permutation", Shape{1, 0}}});
  graph.output(graph.node("reduce_sum", {turned}, TRANSOM_FLOAT32, {3}, {{"axes", Shape{1}}}));
  const Tensor expected = run(graph, {x, w})[0];

  ::setenv("TRANSOM_OPENCL_MEMORY", "objects", 1);
  Plugin objects("opencl");
  ::unsetenv("TRANSOM_OPENCL_MEMORY");
  Program program(objects, graph);
  ASSERT_EQ(program.error, "");
  EXPECT_EQ(program.run({x, w})[0].values, expected.values);
  EXPECT_EQ(program.error, "");
}

}  // namespace
}  // namespace transom::backend_test
