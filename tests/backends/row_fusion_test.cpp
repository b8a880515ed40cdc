// SPDX-License-Identifier: Apache-2.0
// Regions that walk rows give the bits of their nodes one by one.
#include <gtest/gtest.h>

#include "backends/harness.h"

namespace transom::backend_test {
namespace {

constexpr transom_dtype kF32 = TRANSOM_FLOAT32;

// Adds the nodes of a region to a graph, or makes a graph of them.
struct Rows {
  explicit Rows(Graph& graph, Shape shape) : graph(graph), shape(std::move(shape)) {}

  int elementwise(const char* op, std::vector<int> inputs, transom_dtype dtype = kF32) {
    return graph.node(op, std::move(inputs), dtype, shape);
  }
  int reduced(const char* op, int x) { return graph.node(op, {x}, kF32, {shape[0]}, {{"axes", Shape{1}}}); }
  // x times one number a row, which stands in a region of its own as the pass leaves it.
  int scaled(int x, int number) {
    Graph& region = regions.emplace_back();
    const int a = region.input(kF32, shape), b = region.input(kF32, {shape[0], 1});
    region.output(region.node("mul", {a, region.node("broadcast", {b}, kF32, shape)}, kF32, shape));
    return graph.region("fusion", {x, number}, region)[0];
  }
  int column(int x) { return graph.node("reshape", {x}, kF32, {shape[0], 1}, {{"shape", Shape{shape[0], 1}}}); }

  Graph& graph;
  Shape shape;
  static inline std::deque<Graph> regions;  // outlive the graphs
};

// A residual, two norms, sums and extremes: values that stay inside, values that leave, and one that does both.
std::vector<int> everything(Graph& graph, const Shape& shape, const std::vector<int>& in) {
  Rows rows(graph, shape);
  const int sum = rows.elementwise("add", {in[0], in[1]});
  const int norm = graph.node("layer_norm", {sum, in[2], in[3]}, kF32, shape, {{"epsilon", 1e-5}});
  const int probabilities = rows.elementwise("softmax", {norm});
  const int exponentials = rows.elementwise("exp", {probabilities});
  const int total = rows.reduced("reduce_sum", exponentials);
  const int largest = rows.reduced("reduce_max", probabilities), smallest = rows.reduced("reduce_min", norm);
  const int inverse = graph.node("rsqrt", {rows.column(total)}, kF32, {shape[0], 1});
  const int gradient = rows.elementwise("softmax_gradient", {probabilities, exponentials});
  return {sum, largest, smallest, total, rows.scaled(exponentials, inverse), gradient};
}

class RowFusion : public testing::TestWithParam<Shape> {};

TEST_P(RowFusion, GivesTheBitsOfItsNodes) {
  const Shape& shape = GetParam();
  const std::vector<Tensor> inputs = {numbers(kF32, shape, -3, 3), numbers(kF32, shape, -1, 1, 2),
                                      numbers(kF32, {shape[1]}, 0.5, 1.5, 3), numbers(kF32, {shape[1]}, -1, 1, 4)};
  Graph apart, region, whole;
  std::vector<int> a, r, w;
  for (const Tensor& input : inputs) {
    a.push_back(apart.input(input));
    r.push_back(region.input(input));
    w.push_back(whole.input(input));
  }
  for (const int output : everything(apart, shape, a)) apart.output(output);
  for (const int output : everything(region, shape, r)) region.output(output);
  for (const int output : whole.region("row_fusion", w, region)) whole.output(output);
  Program one_by_one(Plugin::cpu(), apart), together(Plugin::cpu(), whole);
  ASSERT_EQ(one_by_one.error, "");
  ASSERT_EQ(together.error, "");
  const std::vector<Tensor> expected = one_by_one.run(inputs), found = together.run(inputs);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].values, expected[i].values) << "output " << i;
  EXPECT_NE(together.describe().find("rows at a time"), std::string::npos) << together.describe();
}

// Few and many rows, shorter and longer than the rows computed at a time, and rows that are summed in pieces.
INSTANTIATE_TEST_SUITE_P(Shapes, RowFusion,
                         testing::Values(Shape{2, 2}, Shape{3, 7}, Shape{21, 768}, Shape{43, 768}, Shape{40, 513},
                                         Shape{7000, 3}, Shape{5, 20000}, Shape{2, 140000}));

TEST(RowFusionErrors, RefusesRegionsThatItCannotWalk) {
  Graph region, graph;
  const int x = region.input(kF32, {3, 4});
  region.output(region.node("reduce_sum", {x}, kF32, {4}, {{"axes", Shape{0}}}));
  graph.output(graph.region("row_fusion", {graph.input(kF32, {3, 4})}, region)[0]);
  EXPECT_NE(Program(Plugin::cpu(), graph).error.find("4 elements in 3 rows"), std::string::npos);

  Graph none, outer;
  none.output(none.node("exp", {none.input(kF32, {3, 4})}, kF32, {3, 4}));
  outer.output(outer.region("row_fusion", {outer.input(kF32, {3, 4})}, none)[0]);
  EXPECT_NE(Program(Plugin::cpu(), outer).error.find("walks rows"), std::string::npos);
}

}  // namespace
}  // namespace transom::backend_test
