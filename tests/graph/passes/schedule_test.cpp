// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "graph/passes/memory_plan.h"
#include "graph/passes/passes.h"

namespace transom {
namespace {

std::string scheduled(std::string_view text) {
  const Graph graph = schedule(parse_graph(text));
  verify(graph);
  return print_graph(graph);
}

// All copies are made before the first is read; each can wait for its reader.
TEST(Schedule, MakesValuesJustBeforeTheyAreRead) {
  EXPECT_EQ(scheduled(R"(graph(%0: f32[64], %1: f32[1]) {
  %2 = broadcast(%1) {shape=[64]} : f32[64]
  %3 = reverse(%0) {axes=[0]} : f32[64]
  %4 = reduce_sum(%3) {axes=[0]} : f32[]
  %5 = dot_general(%2, %0) {dtype=8, x_batch=[], x_contract=[0], y_batch=[], y_contract=[0]} : f32[]
  return %4, %5
})"),
            R"(graph(%0: f32[64], %1: f32[1]) {
  %2 = reverse(%0) {axes=[0]} : f32[64]
  %3 = reduce_sum(%2) {axes=[0]} : f32[]
  %4 = broadcast(%1) {shape=[64]} : f32[64]
  %5 = dot_general(%4, %0) {dtype=8, x_batch=[], x_contract=[0], y_batch=[], y_contract=[0]} : f32[]
  return %3, %5
}
)");
}

// The first value is read for the last time at the end, but could be read at once.
TEST(Schedule, ReadsValuesForTheLastTimeAsEarlyAsItCan) {
  EXPECT_EQ(scheduled(R"(graph(%0: f32[64]) {
  %1 = reverse(%0) {axes=[0]} : f32[64]
  %2 = cumulative_sum(%1) {axis=0} : f32[64]
  %3 = reverse(%2) {axes=[0]} : f32[64]
  %4 = reduce_sum(%3) {axes=[0]} : f32[]
  %5 = reduce_sum(%1) {axes=[0]} : f32[]
  return %4, %5
})"),
            R"(graph(%0: f32[64]) {
  %1 = reverse(%0) {axes=[0]} : f32[64]
  %2 = reduce_sum(%1) {axes=[0]} : f32[]
  %3 = cumulative_sum(%1) {axis=0} : f32[64]
  %4 = reverse(%3) {axes=[0]} : f32[64]
  %5 = reduce_sum(%4) {axes=[0]} : f32[]
  return %5, %2
}
)");
}

TEST(Schedule, LeavesAnOrderThatIsGoodAsItIs) {
  const std::string text = R"(graph(%0: f32[16]) {
  %1 = reverse(%0) {axes=[0]} : f32[16]
  %2 = cumulative_sum(%1) {axis=0} : f32[16]
  %3 = reduce_sum(%2) {axes=[0]} : f32[]
  return %3
}
)";
  EXPECT_EQ(scheduled(text), text);
}

TEST(LiveMaximum, IsThatOfThePlan) {
  const Graph graph = parse_graph(R"(graph(%0: f32[16]) {
    %1 = reverse(%0) {axes=[0]} : f32[16]
    %2 = reverse(%1) {axes=[0]} : f32[16]
    %3 = dot_general(%1, %2) {dtype=8, x_batch=[], x_contract=[0], y_batch=[], y_contract=[0]} : f32[]
    return %3
  })");
  EXPECT_EQ(live_maximum(graph), 128);
  EXPECT_EQ(plan_memory(graph, {false}).live_maximum, 128);
}

}  // namespace
}  // namespace transom
