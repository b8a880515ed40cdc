// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/memory_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace transom {
namespace {

MemoryPlan plan(const Graph& graph, std::vector<bool> donated = {}) {
  donated.resize(graph.inputs.size());
  return plan_memory(graph, donated);
}

TEST(MemoryPlan, SharesMemoryOfValuesThatDoNotLiveTogether) {
  const Graph graph = parse_graph(R"(graph(%0: f32[16]) {
    %1 = reverse(%0) {axes=[0]} : f32[16]
    %2 = reverse(%1) {axes=[0]} : f32[16]
    %3 = reverse(%2) {axes=[0]} : f32[16]
    %4 = reverse(%3) {axes=[0]} : f32[16]
    return %4
  })");
  const MemoryPlan result = plan(graph);
  EXPECT_EQ(result.arena_bytes, 128);  // two values of 64 bytes, in turn
  EXPECT_EQ(result.live_maximum, 128);
  EXPECT_NE(result.offsets.at(Tensor(graph.nodes[0], 0)), result.offsets.at(Tensor(graph.nodes[1], 0)));
}

TEST(MemoryPlan, PutsElementwiseResultsOnDyingInputs) {
  const Graph graph = parse_graph(R"(graph(%0: f32[16]) {
    %1 = reverse(%0) {axes=[0]} : f32[16]
    %2 = exp(%1) : f32[16]
    %3 = reverse(%2) {axes=[0]} : f32[16]
    return %3
  })");
  EXPECT_EQ(plan(graph).arena_bytes, 64);
}

// The fusion is computed on chunks of the product, while this still reads its input.
TEST(MemoryPlan, KeepsWhatAProductReadsUntilTheFusionBehindItIsDone) {
  for (const bool shared : {false, true}) {
    const Graph graph = parse_graph(fmt::format(R"(graph(%0: u8[4, 64], %1: i8[64, 64]) {{
      %2 = reverse(%0) {{axes=[0]}} : u8[4, 64]
      %3 = integer_linear(%2, %1) {{zero_point=0}} : f32[4, 64]
      %4 = cast(%3) {{dtype={}}} : u8[4, 64]
      %5 = reverse(%4) {{axes=[0]}} : u8[4, 64]
      {}
    }})",
                                                static_cast<int>(DType::kUInt8),
                                                shared ? "%6 = exp(%3) : f32[4, 64]\n return %5, %6" : "return %5"));
    const MemoryPlan result = plan(graph);
    const int64_t read = result.offsets.at(Tensor(graph.nodes[0], 0)),
                  written = result.offsets.at(Tensor(graph.nodes[2], 0));
    EXPECT_EQ(written == read, shared) << "another reader wants the product whole";
  }
}

TEST(MemoryPlan, NeverPutsAResultOnAnInputThatIsReadLater) {
  const Graph graph = parse_graph(R"(graph(%0: f32[16]) {
    %1 = reverse(%0) {axes=[0]} : f32[16]
    %2 = exp(%1) : f32[16]
    %3 = dot_general(%1, %2) {dtype=8, x_batch=[], x_contract=[0], y_batch=[], y_contract=[0]} : f32[]
    return %3
  })");
  const MemoryPlan result = plan(graph);
  EXPECT_NE(result.offsets.at(Tensor(graph.nodes[0], 0)), result.offsets.at(Tensor(graph.nodes[1], 0)));
}

// Outputs of a row_fusion, whose nodes run one after the other for some rows.
TEST(MemoryPlan, PutsRowsOnInputsThatAreReadBefore) {
  const auto lies_on_input = [](std::string_view region) {
    const Graph graph = parse_graph(fmt::format(R"(graph(%0: f32[4, 4]) {{
      %1 = reverse(%0) {{axes=[0]}} : f32[4, 4]
      %2, %3 = row_fusion(%1) region graph(%0: f32[4, 4]) {{ {} }} : f32[4, 4], f32[4]
      %4 = reverse(%2) {{axes=[0]}} : f32[4, 4]
      return %3, %4
    }})",
                                                region));
    const MemoryPlan result = plan(graph);
    return result.offsets.at(Tensor(graph.nodes[0], 0)) == result.offsets.at(Tensor(graph.nodes[1], 0));
  };
  EXPECT_TRUE(lies_on_input(R"(
    %1 = exp(%0) : f32[4, 4]
    %2 = reduce_sum(%1) {axes=[0]} : f32[4]
    return %1, %2
  )"));
  EXPECT_TRUE(lies_on_input(R"(
    %1 = reduce_sum(%0) {axes=[1]} : f32[4]
    %2 = exp(%0) : f32[4, 4]
    return %2, %1
  )"));
  EXPECT_FALSE(lies_on_input(R"(
    %1 = exp(%0) : f32[4, 4]
    %2 = reduce_sum(%0) {axes=[1]} : f32[4]
    return %1, %2
  )"));
  EXPECT_FALSE(lies_on_input(R"(
    %1 = softmax(%0) : f32[4, 4]
    %2 = reduce_sum(%1) {axes=[1]} : f32[4]
    return %1, %2
  )"));
}

// One number a row on a row that all rows read: the next rows would read what was written for these.
TEST(MemoryPlan, NeverPutsNumbersOfRowsOnARowThatAllRead) {
  const Graph graph = parse_graph(R"(graph(%0: f32[4, 4], %1: f32[4]) {
    %2 = reverse(%1) {axes=[0]} : f32[4]
    %3 = row_fusion(%0, %2) region graph(%0: f32[4, 4], %1: f32[4]) {
      %2 = layer_norm(%0, %1, %1) {epsilon=1e-05} : f32[4, 4]
      %3 = reduce_sum(%2) {axes=[1]} : f32[4]
      return %3
    } : f32[4]
    %4 = reverse(%3) {axes=[0]} : f32[4]
    return %4
  })");
  const MemoryPlan result = plan(graph);
  EXPECT_NE(result.offsets.at(Tensor(graph.nodes[0], 0)), result.offsets.at(Tensor(graph.nodes[1], 0)));
}

// What the record's trait `in_place` says: rows are set where x lies, unless another input lies there.
TEST(MemoryPlan, SetsRowsInPlace) {
  const Graph graph = parse_graph(R"(graph(%0: f32[16, 4], %1: i64[2], %2: f32[2, 4]) {
    %3 = reverse(%0) {axes=[0]} : f32[16, 4]
    %4 = scatter(%3, %1, %2) : f32[16, 4]
    %5 = scatter(%0, %1, %2) : f32[16, 4]
    %6 = reverse(%4) {axes=[0]} : f32[16, 4]
    return %5, %6
  })");
  const MemoryPlan result = plan(graph, {true, false, false});
  EXPECT_EQ(result.offsets.at(Tensor(graph.nodes[0], 0)), result.offsets.at(Tensor(graph.nodes[1], 0)));
  EXPECT_EQ(result.arena_bytes, 256);
  EXPECT_EQ(result.donor, (std::vector<int>{0, -1}));

  const Graph twice = parse_graph(R"(graph(%0: f32[4, 4], %1: i64[4]) {
    %2 = reverse(%0) {axes=[0]} : f32[4, 4]
    %3 = scatter(%2, %1, %2) : f32[4, 4]
    %4 = reverse(%3) {axes=[0]} : f32[4, 4]
    return %4
  })");
  EXPECT_EQ(plan(twice).arena_bytes, 128);  // the updates are read while rows are set
}

TEST(MemoryPlan, GivesADonatedInputToTheOutputThatReplacesIt) {
  const Graph graph = parse_graph(R"(graph(%0: f32[16], %1: f32[16]) {
    %2 = add(%0, %1) : f32[16]
    return %2
  })");
  EXPECT_EQ(plan(graph, {true, false}).donor, std::vector<int>{0});
  EXPECT_EQ(plan(graph, {false, true}).donor, std::vector<int>{1});
  EXPECT_EQ(plan(graph).donor, std::vector<int>{-1});
}

TEST(MemoryPlan, KeepsADonatedInputThatIsStillToBeRead) {
  const Graph graph = parse_graph(R"(graph(%0: f32[16]) {
    %1 = exp(%0) : f32[16]
    %2 = reverse(%0) {axes=[0]} : f32[16]
    return %1, %2
  })");
  EXPECT_EQ(plan(graph, {true}).donor, (std::vector<int>{-1, -1}));
}

}  // namespace
}  // namespace transom
