// SPDX-License-Identifier: Apache-2.0
// What a device would compile, asked of its description alone.
#include "runtime/programs/lower.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/ops/elementwise/quantization.h"
#include "runtime/programs/node_support.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

// A layer and its gradient; two of the inputs are weights.
Graph layer() {
  const Tensor x = make_input({DType::kFloat32, {8, 16}}), weight = make_input({DType::kFloat32, {4, 16}}),
               bias = make_input({DType::kFloat32, {4}});
  const Tensor y = softmax(gelu(linear(x, weight * 2.0, bias)));
  const Tensor dx = gradients(reduce_sum(y * y, {0, 1}), {x})[0];
  return make_graph({y, dx}, {x, weight, bias});
}

TEST(Lower, NeedsNoDevice) {
  const Graph traced = layer();
  const LoweredGraph primitives = lower(traced, compile_target({}), {});
  const LoweredGraph fused = lower(traced, compile_target({"linear", "softmax", "softmax_gradient", "fusion"}), {});
  EXPECT_LT(fused.graph.nodes.size(), primitives.graph.nodes.size());
  for (const std::shared_ptr<Node>& node : primitives.graph.nodes)
    EXPECT_EQ(node->operation->kind, OperationKind::kPrimitive) << node->operation->name;
  EXPECT_GT(primitives.plan.arena_bytes, 0);
  EXPECT_GE(primitives.plan.arena_bytes, primitives.plan.live_maximum);
  EXPECT_LT(fused.plan.arena_bytes, primitives.plan.arena_bytes);
}

// The description of a device that is here gives what the device itself is given.
TEST(Lower, AgreesWithTheOpenedDevice) {
  const Graph traced = layer();
  // The null device takes every composite, the reference device none.
  const CompileTarget takes_all{.supports = [](const Node&) { return true; }, .runs = nullptr};
  for (const auto& [name, described] : {std::pair{"null", takes_all}, std::pair{"reference", compile_target({})}}) {
    const LoweredGraph from_model = lower(traced, described, {}),
                       from_device = lower(traced, model_of(Device::open(name), false), {});
    EXPECT_EQ(print_graph(from_model.graph), print_graph(from_device.graph)) << name;
    EXPECT_EQ(from_model.plan.arena_bytes, from_device.plan.arena_bytes) << name;
  }
}

TEST(Lower, FoldsWhatIsFrozenAndGivesDonatedMemory) {
  const LoweredGraph lowered = lower(layer(), compile_target({"linear"}), {.donated = {true}, .frozen = {false, true}});
  ASSERT_EQ(lowered.folded.size(), 1u);
  EXPECT_EQ(lowered.folded[0].inputs, (std::vector<size_t>{1}));
  ASSERT_EQ(lowered.graph.inputs.size(), 4u);
  EXPECT_EQ(lowered.frozen, (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(lowered.donated, (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(std::count(lowered.plan.donor.begin(), lowered.plan.donor.end(), 0), 1);
}

// Layers in 8-bit integers on a device that multiplies integers: their weights are rounded once, where they are frozen.
TEST(Lower, RoundsFrozenWeightsOnce) {
  const Tensor x = make_input({DType::kFloat32, {8, 16}}), weight = make_input({DType::kFloat32, {4, 16}});
  const Graph traced = make_graph({quantized_linear(x, weight, {})}, {x, weight});
  const CompileTarget device = compile_target({"integer_linear"});
  const LoweredGraph lowered = lower(traced, device, {.frozen = {false, true}});
  ASSERT_EQ(lowered.folded.size(), 2u);  // codes and scales
  const Tensor& codes = lowered.folded[0].graph.outputs[0].dtype() == DType::kInt8 ? lowered.folded[0].graph.outputs[0]
                                                                                   : lowered.folded[1].graph.outputs[0];
  EXPECT_EQ(codes.type(), (Type{DType::kInt8, {4, 16}}));
  EXPECT_NE(print_graph(lowered.graph).find("integer_linear"), std::string::npos);
  EXPECT_TRUE(lower(traced, device, {}).folded.empty());
  const LoweredGraph whole = lower(traced, compile_target({"quantized_linear"}), {.frozen = {false, true}});
  EXPECT_TRUE(whole.folded.empty());
  EXPECT_EQ(whole.graph.nodes.size(), 1u);
}

TEST(Lower, TellsOutputsFromInputs) {
  const Tensor x = make_input({DType::kFloat32, {2}});
  const Tensor y = exp(x);
  const LoweredGraph lowered = lower(make_graph({y, x, y}, {x}), compile_target({}), {.donated = {true}});
  ASSERT_EQ(lowered.outputs.size(), 3u);
  EXPECT_TRUE(lowered.outputs[1].is_input);
  EXPECT_EQ(lowered.outputs[0].index, lowered.outputs[2].index);
  EXPECT_EQ(lowered.graph.outputs.size(), 1u);
  EXPECT_FALSE(lowered.donated[0]) << "it is handed out";
}

// Nodes that a described device lacks stand apart before anything is fused.
TEST(Lower, PlacesOnTheHostWhatTheDeviceLacks) {
  const Tensor x = make_input({DType::kFloat32, {4}});
  CompileTarget device = compile_target({"fusion"});
  device.runs = [](const Node& node) { return node.operation->name != "erf"; };
  const LoweredGraph lowered = lower(make_graph({exp(erf(exp(x) * 2.0)) + 1.0}, {x}), device, {});
  std::vector<std::string> names;
  for (const std::shared_ptr<Node>& node : lowered.graph.nodes) names.emplace_back(node->operation->name);
  EXPECT_EQ(names, (std::vector<std::string>{"fusion", "on_host", "fusion"}));
}

}  // namespace
}  // namespace transom
