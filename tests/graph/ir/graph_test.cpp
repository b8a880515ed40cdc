// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/graph.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/message.h"
#include "transom/ops.h"

namespace transom {
namespace {

using test::message_of;

Tensor f32(Shape shape) { return make_input({DType::kFloat32, std::move(shape)}); }

std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.nodes) names.emplace_back(node->operation->name);
  return names;
}

using Names = std::vector<std::string>;

struct StandInStorage : Storage {};

// ---- make_graph

TEST(MakeGraph, PutsNodesInTheOrderOfTheirCreation) {
  const Tensor x = f32({3});
  const Tensor late = exp(x), later = tanh(x);
  const Graph graph = make_graph({later + late}, {x});
  EXPECT_EQ(names_of(graph), (Names{"exp", "tanh", "add"}));
}

TEST(MakeGraph, LeavesOutWhatNoOutputNeeds) {
  const Tensor x = f32({3});
  exp(x);
  EXPECT_EQ(names_of(make_graph({tanh(x)}, {x})), Names{"tanh"});
}

TEST(MakeGraph, AppendsLeavesThatWereNotGiven) {
  const Tensor x = f32({3}), y = f32({3}), unused = f32({1});
  const Graph graph = make_graph({x + y}, {unused, y});
  ASSERT_EQ(graph.inputs.size(), 3u);
  EXPECT_TRUE(graph.inputs[0].same_as(unused));
  EXPECT_TRUE(graph.inputs[1].same_as(y));
  EXPECT_TRUE(graph.inputs[2].same_as(x));
}

TEST(MakeGraph, StopsAtComputedTensors) {
  const Tensor x = f32({3}), y = exp(x);
  y.node()->give_storage(0, std::make_shared<StandInStorage>());
  const Graph graph = make_graph({tanh(y)});
  EXPECT_EQ(names_of(graph), Names{"tanh"});
  ASSERT_EQ(graph.inputs.size(), 1u);
  EXPECT_TRUE(graph.inputs[0].same_as(y));
}

TEST(MakeGraph, StopsAtGivenInputsThatAreNoLeaves) {
  const Tensor x = f32({3}), y = exp(x);
  const Graph graph = make_graph({tanh(y)}, {y});
  EXPECT_EQ(names_of(graph), Names{"tanh"});
  EXPECT_EQ(graph.inputs.size(), 1u);
}

// ---- rewrite

TEST(Rewrite, KeepsTheOrderAndDropsWhatIsNoLongerUsed) {
  const Tensor x = f32({3});
  const Tensor a = exp(x), b = tanh(a), c = neg(x);
  const Graph graph = make_graph({b + c}, {x});
  // tanh(exp(x)) becomes sin(cos(x)): the exp is used by nothing any more.
  const Graph result = rewrite(graph, [&](const Node& node, const std::vector<Tensor>&) -> std::vector<Tensor> {
    if (node.operation->name != "tanh") return {};
    return {sin(cos(x))};
  });
  EXPECT_EQ(names_of(result), (Names{"cos", "sin", "neg", "add"}));
  verify(result);
}

TEST(Rewrite, PassesNewInputsOn) {
  const Tensor x = f32({3});
  const Graph graph = make_graph({tanh(exp(x))}, {x});
  const Graph result = rewrite(graph, [](const Node& node, const std::vector<Tensor>& inputs) -> std::vector<Tensor> {
    if (node.operation->name != "exp") return {};
    return {inputs[0]};
  });
  EXPECT_EQ(names_of(result), Names{"tanh"});
  EXPECT_TRUE(result.nodes[0]->inputs[0].same_as(x));
}

TEST(Rewrite, KeepsUntouchedNodesThemselves) {
  const Tensor x = f32({3});
  const Graph graph = make_graph({tanh(exp(x))}, {x});
  const Graph result = rewrite(graph, [](const Node&, const std::vector<Tensor>&) { return std::vector<Tensor>(); });
  EXPECT_EQ(result.nodes, graph.nodes);
}

// ---- inline_graph

TEST(InlineGraph, MakesTheNodesAnewOverOtherInputs) {
  const Tensor x = f32({3}), y = f32({3});
  const Graph graph = make_graph({tanh(exp(x)), x}, {x});
  const std::vector<Tensor> outputs = inline_graph(graph, {y});
  EXPECT_TRUE(outputs[1].same_as(y));
  const Graph copy = make_graph(outputs);
  EXPECT_EQ(names_of(copy), (Names{"exp", "tanh"}));
  EXPECT_NE(copy.nodes[0], graph.nodes[0]);
  EXPECT_EQ(structural_key(copy), structural_key(graph));
}

TEST(InlineGraph, RefusesAnotherNumberOfInputs) {
  const Tensor x = f32({3});
  EXPECT_THROW(inline_graph(make_graph({exp(x)}, {x}), {}), Error);
}

// ---- structural_key

Graph sum_graph(DType dtype, Shape shape, const Axes& axes) {
  const Tensor x = make_input({dtype, std::move(shape)});
  return make_graph({reduce_sum(x, axes)}, {x});
}

TEST(StructuralKey, IsEqualForEqualStructures) {
  EXPECT_EQ(structural_key(sum_graph(DType::kFloat32, {2, 3}, {0})),
            structural_key(sum_graph(DType::kFloat32, {2, 3}, {0})));
}

TEST(StructuralKey, TellsTypesShapesAttributesOperationsAndWiringApart) {
  const GraphKey key = structural_key(sum_graph(DType::kFloat32, {2, 3}, {0}));
  EXPECT_NE(key, structural_key(sum_graph(DType::kBFloat16, {2, 3}, {0})));
  EXPECT_NE(key, structural_key(sum_graph(DType::kFloat32, {3, 2}, {0})));
  EXPECT_NE(key, structural_key(sum_graph(DType::kFloat32, {2, 3}, {1})));
  const Tensor x = f32({3}), y = f32({3});
  const GraphKey difference = structural_key(make_graph({x - y}, {x, y}));
  EXPECT_NE(difference, structural_key(make_graph({x + y}, {x, y})));
  EXPECT_NE(difference, structural_key(make_graph({y - x}, {x, y})));
  const Tensor e = exp(x), t = tanh(x);
  EXPECT_NE(structural_key(make_graph({e, t}, {x})), structural_key(make_graph({t, e}, {x})));
  EXPECT_NE(structural_key(make_graph({x + 1.0}, {x})), structural_key(make_graph({x + 2.0}, {x})));
}

TEST(StructuralKey, LooksIntoRegions) {
  const auto with_region = [](Tensor (*function)(const Tensor&)) {
    const Tensor inner = f32({3}), x = f32({3});
    const auto region = std::make_shared<Graph>(make_graph({function(inner)}, {inner}));
    return make_graph({Tensor(make_node(find_operation("fusion"), {x}, {}, region), 0)}, {x});
  };
  EXPECT_EQ(structural_key(with_region(exp)), structural_key(with_region(exp)));
  EXPECT_NE(structural_key(with_region(exp)), structural_key(with_region(tanh)));
}

// ---- verify

TEST(Verify, AcceptsWhatMakeGraphGives) {
  const Tensor x = f32({2, 3});
  verify(make_graph({softmax(x), reduce_sum(x, {0})}, {x}));
}

TEST(Verify, RefusesAnInputThatIsUsedBeforeItIsMade) {
  const Tensor x = f32({3});
  Graph graph = make_graph({tanh(exp(x))}, {x});
  std::swap(graph.nodes[0], graph.nodes[1]);
  EXPECT_NE(message_of([&] { verify(graph); }).find("tanh uses a value of exp before it is made"), std::string::npos);
}

TEST(Verify, RefusesTypesThatTheRuleDoesNotGive) {
  const Tensor x = f32({3});
  const Graph graph = make_graph({exp(x)}, {x});
  graph.nodes[0]->types[0].shape = {4};
  EXPECT_NE(message_of([&] { verify(graph); }).find("exp has type f32[4], its rule gives f32[3]"), std::string::npos);
  graph.nodes[0]->types.clear();
  EXPECT_THROW(verify(graph), Error);
}

TEST(Verify, RefusesOutputsThatNothingMakes) {
  const Tensor x = f32({3});
  Graph graph = make_graph({exp(x)}, {x});
  graph.nodes.clear();
  EXPECT_THROW(verify(graph), Error);
}

TEST(Verify, RefusesARegionThatDoesNotFitItsNode) {
  const Tensor inner = f32({3}), x = f32({3});
  auto region = std::make_shared<Graph>(make_graph({exp(inner)}, {inner}));
  const auto node = make_node(find_operation("fusion"), {x}, {}, region);
  const Graph graph = make_graph({Tensor(node, 0)}, {x});
  verify(graph);
  region->outputs.push_back(inner);
  EXPECT_THROW(verify(graph), Error);
  region->outputs.clear();
  EXPECT_THROW(verify(graph), Error);
}

}  // namespace
}  // namespace transom
