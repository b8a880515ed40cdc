// SPDX-License-Identifier: Apache-2.0
// Regions that walk rows give the bits of their nodes one by one.
#include <gtest/gtest.h>

#include "backends/harness.h"
#include "support/test_names.h"

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

// A norm, backward, and dropout behind it: what it scales, sums over all rows beside those along a row.
std::vector<int> gradients(Graph& graph, const Shape& shape, const std::vector<int>& in) {
  Rows rows(graph, shape);
  const Shape one = {shape[1]};
  const int dy = rows.elementwise("add", {in[0], in[1]});
  const std::vector<int> norm = graph.nodes("layer_norm_gradient", {in[0], in[2], dy},
                                            {{kF32, shape}, {kF32, one}, {kF32, one}}, {{"epsilon", 1e-5}});
  const int dropped = rows.elementwise("mul", {norm[0], in[1]});
  std::vector<int> made = {norm[1], norm[2], dropped, rows.reduced("reduce_sum", dropped),
                           graph.node("reduce_sum", {dropped}, kF32, one, {{"axes", Shape{0}}})};
  for (const transom_dtype dtype : {TRANSOM_BFLOAT16, TRANSOM_FLOAT16}) {
    const int narrow = rows.elementwise("cast", {dropped}, dtype);
    made.push_back(graph.node("reduce_sum", {narrow}, dtype, one, {{"axes", Shape{0}}}));
  }
  return made;
}

// One sum over the rows of what else would be a fusion.
std::vector<int> one_sum(Graph& graph, const Shape& shape, const std::vector<int>& in) {
  const int product = Rows(graph, shape).elementwise("mul", {in[0], in[1]});
  return {product, graph.node("reduce_sum", {product}, kF32, {shape[1]}, {{"axes", Shape{0}}})};
}

using Nodes = std::vector<int> (*)(Graph& graph, const Shape& shape, const std::vector<int>& in);

std::vector<Tensor> row_inputs(const Shape& shape) {
  return {numbers(kF32, shape, -3, 3), numbers(kF32, shape, -1, 1, 2), numbers(kF32, {shape[1]}, 0.5, 1.5, 3),
          numbers(kF32, {shape[1]}, -1, 1, 4)};
}

// The nodes as one row_fusion.
struct Together {
  Together(Nodes nodes, const Shape& shape) {
    std::vector<int> inside, outside;
    for (const Tensor& input : row_inputs(shape)) {
      inside.push_back(region.input(input));
      outside.push_back(whole.input(input));
    }
    for (const int output : nodes(region, shape, inside)) region.output(output);
    for (const int output : whole.region("row_fusion", outside, region)) whole.output(output);
  }
  Graph region, whole;
};

class RowFusion : public testing::TestWithParam<Shape> {};

void expect_bits_of_nodes(Nodes nodes, const Shape& shape) {
  const std::vector<Tensor> inputs = row_inputs(shape);
  Graph apart;
  std::vector<int> a;
  for (const Tensor& input : inputs) a.push_back(apart.input(input));
  for (const int output : nodes(apart, shape, a)) apart.output(output);
  const Together whole(nodes, shape);
  Program one_by_one(Plugin::cpu(), apart), together(Plugin::cpu(), whole.whole);
  ASSERT_EQ(one_by_one.error, "");
  ASSERT_EQ(together.error, "");
  const std::vector<Tensor> expected = one_by_one.run(inputs), found = together.run(inputs);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].values, expected[i].values) << "output " << i;
  EXPECT_NE(together.describe().find("rows at a time"), std::string::npos) << together.describe();
}

TEST_P(RowFusion, GivesTheBitsOfItsNodes) { expect_bits_of_nodes(everything, GetParam()); }
TEST_P(RowFusion, GivesTheBitsOfSumsOverAllRows) {
  expect_bits_of_nodes(gradients, GetParam());
  expect_bits_of_nodes(one_sum, GetParam());
}

// Few and many rows, shorter and longer than the rows computed at a time, and rows that are summed in pieces.
INSTANTIATE_TEST_SUITE_P(Shapes, RowFusion,
                         testing::Values(Shape{2, 2}, Shape{3, 7}, Shape{21, 768}, Shape{43, 768}, Shape{40, 513},
                                         Shape{7000, 3}, Shape{5, 20000}, Shape{2, 140000}, Shape{1, 2}, Shape{1, 31},
                                         Shape{31, 1031}, Shape{257, 3072}, Shape{1024, 768}, Shape{2053, 67},
                                         Shape{100003, 2}, Shape{70, 4099}),
                         [](const auto& info) { return test::words(info.param[0], "rows_of", info.param[1]); });

TEST(RowFusionThreads, ChangeNoBits) {
  for (const Shape& shape : {Shape{1024, 96}, Shape{257, 1031}, Shape{4099, 2}}) {
    const Together whole(gradients, shape);
    const std::vector<Tensor> inputs = row_inputs(shape);
    std::vector<Tensor> expected;
    for (const size_t threads : {1, 2, 3, 16}) {
      Plugin plugin("cpu", threads);
      Program program(plugin, whole.whole);
      ASSERT_EQ(program.error, "");
      const std::vector<Tensor> found = program.run(inputs);
      if (expected.empty()) expected = found;
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_EQ(found[i].values, expected[i].values) << threads << " threads, output " << i;
    }
  }
  Plugin again("cpu");
}

TEST(RowFusionErrors, RefusesRegionsThatItCannotWalk) {
  const auto error_of = [](const Graph& region, const Shape& shape) {
    Graph graph;
    graph.output(graph.region("row_fusion", {graph.input(kF32, shape)}, region)[0]);
    return Program(Plugin::cpu(), graph).error;
  };
  Graph middle;
  const int x = middle.input(kF32, {3, 2, 4});
  middle.output(middle.node("reduce_sum", {x}, kF32, {3, 4}, {{"axes", Shape{1}}}));
  EXPECT_NE(error_of(middle, {3, 2, 4}).find("along the last axis"), std::string::npos) << error_of(middle, {3, 2, 4});

  Graph none;
  none.output(none.node("exp", {none.input(kF32, {3, 4})}, kF32, {3, 4}));
  EXPECT_NE(error_of(none, {3, 4}).find("walks rows"), std::string::npos);

  // What is summed over all rows is not there while the rows are walked.
  Graph early;
  const int y = early.input(kF32, {3, 4});
  early.output(early.node("exp", {early.node("reduce_sum", {y}, kF32, {4}, {{"axes", Shape{0}}})}, kF32, {4}));
  EXPECT_NE(error_of(early, {3, 4}), "");

  Graph two;
  const int z = two.input(kF32, {3, 4}), wide = two.node("broadcast", {z}, kF32, {3, 4}, {{"shape", Shape{3, 4}}});
  two.output(two.node("softmax", {wide}, kF32, {3, 4}));
  two.output(two.node("reduce_max", {two.input(kF32, {6, 2})}, kF32, {6}, {{"axes", Shape{1}}}));
  EXPECT_NE(error_of(two, {3, 4}), "");
}

}  // namespace
}  // namespace transom::backend_test
