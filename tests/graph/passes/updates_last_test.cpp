// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/updates_last.h"

#include <gtest/gtest.h>

#include "graph/passes/memory_plan.h"

namespace transom {
namespace {

std::vector<std::string_view> names(const Graph& graph) {
  std::vector<std::string_view> result;
  for (const std::shared_ptr<Node>& node : graph.nodes) result.push_back(node->operation->name);
  return result;
}

using Names = std::vector<std::string_view>;

// A weight, a running mean and rows; the mean is updated before the loss is known.
Graph step() {
  return parse_graph(R"(graph(%0: f32[16], %1: f32[16], %2: f32[16]) {
    %3 = exp(%1) : f32[16]
    %4 = reverse(%2) {axes=[0]} : f32[16]
    %5 = reduce_sum(%4) {axes=[0]} : f32[]
    %6 = tanh(%0) : f32[16]
    %7 = sin(%6) : f32[16]
    %8 = cos(%4) : f32[16]
    return %3, %5, %7, %8
  })");
}

TEST(UpdatesLast, WhatTakesRestorableMemoryStandsBehindAllElse) {
  const std::vector<bool> restorable = {true, true, false}, donated = {true, true, true};
  const auto [graph, first] = updates_last(step(), donated, restorable);
  EXPECT_EQ(names(graph), (Names{"reverse", "reduce_sum", "tanh", "cos", "exp", "sin"}));
  EXPECT_EQ(first, 4u);
  const MemoryPlan plan = plan_memory(graph, donated, restorable, first);
  EXPECT_EQ(plan.donor[0], 1);  // exp, of the running mean
  EXPECT_EQ(plan.donor[2], 0);  // sin: the weight was read before
}

TEST(UpdatesLast, NothingMovesWhereNothingIsWantedBack) {
  const auto [graph, first] = updates_last(step(), {true, true, true}, {false, false, false});
  EXPECT_EQ(names(graph), names(step()));
  EXPECT_EQ(first, graph.nodes.size());
}

// One node makes the running mean and what the loss needs: it cannot wait, so the mean gets memory of its own.
TEST(UpdatesLast, WhatOthersNeedIsNoUpdate) {
  const Graph given = parse_graph(R"(graph(%0: f32[16], %1: f32[16]) {
    %2 = exp(%0) : f32[16]
    %3 = mul(%2, %1) : f32[16]
    %4 = reduce_sum(%3) {axes=[0]} : f32[]
    return %2, %4
  })");
  const std::vector<bool> restorable = {true, false}, donated = {true, false};
  const auto [graph, first] = updates_last(given, donated, restorable);
  EXPECT_EQ(first, graph.nodes.size());
  EXPECT_EQ(plan_memory(given, donated).donor[0], 0);
  EXPECT_EQ(plan_memory(graph, donated, restorable, first).donor[0], -1);
}

// A weight, a state and a gradient that nobody wants back: one of the new values takes its memory.
TEST(UpdatesLast, WhatAnUpdateMakesOfAGradientIsPartOfIt) {
  const Graph given = parse_graph(R"(graph(%0: f32[16], %1: f32[16], %2: f32[16]) {
    %3, %4, %5 = fusion(%0, %1, %2) region graph(%0: f32[16], %1: f32[16], %2: f32[16]) {
      %3 = add(%0, %2) : f32[16]
      %4 = mul(%1, %2) : f32[16]
      %5 = sub(%1, %0) : f32[16]
      return %3, %4, %5
    } : f32[16], f32[16], f32[16]
    return %3, %4, %5
  })");
  const std::vector<bool> restorable = {true, true, false}, donated = {true, true, true};
  const auto [graph, first] = updates_last(given, donated, restorable);
  EXPECT_EQ(first, 0u);
  EXPECT_EQ(plan_memory(graph, donated, restorable, first).donor, (std::vector<int>{0, 1, 2}));
}

}  // namespace
}  // namespace transom
