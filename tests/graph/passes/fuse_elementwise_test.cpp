// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "graph/passes/passes.h"

namespace transom {
namespace {

std::string fused(std::string_view text) {
  const Graph graph = fuse_elementwise(parse_graph(text));
  verify(graph);
  return print_graph(graph);
}

TEST(FuseElementwise, MakesOnePassOfAChain) {
  EXPECT_EQ(fused(R"(graph(%0: f32[4], %1: f32[4]) {
    %2 = exp(%0) : f32[4]
    %3 = mul(%2, %1) : f32[4]
    return %3
  })"),
            R"(graph(%0: f32[4], %1: f32[4]) {
  %2 = fusion(%0, %1) region graph(%0: f32[4], %1: f32[4]) {
    %2 = exp(%0) : f32[4]
    %3 = mul(%2, %1) : f32[4]
    return %3
  } : f32[4]
  return %2
}
)");
}

TEST(FuseElementwise, TakesBroadcastsAndConstantsInside) {
  EXPECT_EQ(fused(R"(graph(%0: f32[2, 4], %1: f32[1, 4]) {
    %2 = broadcast(%1) {shape=[2, 4]} : f32[2, 4]
    %3 = add(%0, %2) : f32[2, 4]
    return %3
  })"),
            R"(graph(%0: f32[2, 4], %1: f32[1, 4]) {
  %2 = fusion(%0, %1) region graph(%0: f32[2, 4], %1: f32[1, 4]) {
    %2 = broadcast(%1) {shape=[2, 4]} : f32[2, 4]
    %3 = add(%0, %2) : f32[2, 4]
    return %3
  } : f32[2, 4]
  return %2
}
)");
}

// As a batch norm's scale, which broadcasts over images. Who else reads the reshape reads it outside.
TEST(FuseElementwise, TakesTheUnitAxesOfAParameterInside) {
  EXPECT_EQ(fused(R"(graph(%0: f32[2, 4], %1: f32[4], %2: f32[4]) {
    %3 = reshape(%1) {shape=[1, 4]} : f32[1, 4]
    %4 = broadcast(%3) {shape=[2, 4]} : f32[2, 4]
    %5 = add(%0, %4) : f32[2, 4]
    %6 = reshape(%2) {shape=[1, 4]} : f32[1, 4]
    %7 = broadcast(%6) {shape=[2, 4]} : f32[2, 4]
    %8 = mul(%5, %7) : f32[2, 4]
    return %8, %6
  })"),
            R"(graph(%0: f32[2, 4], %1: f32[4], %2: f32[4]) {
  %3 = reshape(%2) {shape=[1, 4]} : f32[1, 4]
  %4 = fusion(%0, %1, %3) region graph(%0: f32[2, 4], %1: f32[4], %2: f32[1, 4]) {
    %3 = reshape(%1) {shape=[1, 4]} : f32[1, 4]
    %4 = broadcast(%3) {shape=[2, 4]} : f32[2, 4]
    %5 = add(%0, %4) : f32[2, 4]
    %6 = broadcast(%2) {shape=[2, 4]} : f32[2, 4]
    %7 = mul(%5, %6) : f32[2, 4]
    return %7
  } : f32[2, 4]
  return %4, %3
}
)");
}

TEST(FuseElementwise, CountsInside) {
  EXPECT_EQ(fused(R"(graph(%0: i64[2, 4]) {
    %1 = iota() {axis=1, dtype=4, shape=[2, 4]} : i64[2, 4]
    %2 = equal(%0, %1) : bool[2, 4]
    return %2
  })"),
            R"(graph(%0: i64[2, 4]) {
  %1 = fusion(%0) region graph(%0: i64[2, 4]) {
    %1 = iota() {axis=1, dtype=4, shape=[2, 4]} : i64[2, 4]
    %2 = equal(%0, %1) : bool[2, 4]
    return %2
  } : bool[2, 4]
  return %1
}
)");
}

// A smaller iota that is broadcast is made once.
TEST(FuseElementwise, LeavesABroadcastIotaOutside) {
  EXPECT_EQ(fused(R"(graph(%0: i64[2, 4]) {
    %1 = iota() {axis=1, dtype=4, shape=[1, 4]} : i64[1, 4]
    %2 = broadcast(%1) {shape=[2, 4]} : i64[2, 4]
    %3 = equal(%0, %2) : bool[2, 4]
    return %3
  })"),
            R"(graph(%0: i64[2, 4]) {
  %1 = iota() {axis=1, dtype=4, shape=[1, 4]} : i64[1, 4]
  %2 = fusion(%0, %1) region graph(%0: i64[2, 4], %1: i64[1, 4]) {
    %2 = broadcast(%1) {shape=[2, 4]} : i64[2, 4]
    %3 = equal(%0, %2) : bool[2, 4]
    return %3
  } : bool[2, 4]
  return %2
}
)");
}

TEST(FuseElementwise, AddsUpAllElementsOnTheWay) {
  EXPECT_EQ(fused(R"(graph(%0: f32[2, 4]) {
    %1 = mul(%0, %0) : f32[2, 4]
    %2 = reduce_sum(%1) {axes=[0, 1]} : f32[]
    %3 = sqrt(%2) : f32[]
    return %3
  })"),
            R"(graph(%0: f32[2, 4]) {
  %1 = fusion(%0) region graph(%0: f32[2, 4]) {
    %1 = mul(%0, %0) : f32[2, 4]
    %2 = reduce_sum(%1) {axes=[0, 1]} : f32[]
    return %2
  } : f32[]
  %2 = sqrt(%1) : f32[]
  return %2
}
)");
}

// Clipping: the norm needs all of the gradient before the update reads it again, in its narrow form.
TEST(FuseElementwise, WidensWhereverItIsRead) {
  EXPECT_EQ(fused(R"(graph(%0: bf16[4], %1: f32[4]) {
    %2 = cast(%0) {dtype=8} : f32[4]
    %3 = mul(%2, %2) : f32[4]
    %4 = reduce_sum(%3) {axes=[0]} : f32[]
    %5 = reshape(%4) {shape=[1]} : f32[1]
    %6 = broadcast(%5) {shape=[4]} : f32[4]
    %7 = mul(%2, %6) : f32[4]
    %8 = sub(%1, %7) : f32[4]
    return %8
  })"),
            R"(graph(%0: bf16[4], %1: f32[4]) {
  %2 = fusion(%0) region graph(%0: bf16[4]) {
    %1 = cast(%0) {dtype=8} : f32[4]
    %2 = mul(%1, %1) : f32[4]
    %3 = reduce_sum(%2) {axes=[0]} : f32[]
    return %3
  } : f32[]
  %3 = reshape(%2) {shape=[1]} : f32[1]
  %4 = fusion(%0, %3, %1) region graph(%0: bf16[4], %1: f32[1], %2: f32[4]) {
    %3 = cast(%0) {dtype=8} : f32[4]
    %4 = broadcast(%1) {shape=[4]} : f32[4]
    %5 = mul(%3, %4) : f32[4]
    %6 = sub(%2, %5) : f32[4]
    return %6
  } : f32[4]
  return %4
}
)");
}

TEST(FuseElementwise, LeavesASingleNodeAlone) {
  const std::string text = R"(graph(%0: f32[4]) {
  %1 = exp(%0) : f32[4]
  return %1
}
)";
  EXPECT_EQ(fused(text), text);
}

// The sum needs all of exp; sub must not be in the group of exp, or the group would wait for itself.
TEST(FuseElementwise, NeverMakesACycleThroughAReduction) {
  EXPECT_EQ(fused(R"(graph(%0: f32[2, 4]) {
    %1 = exp(%0) : f32[2, 4]
    %2 = reduce_sum(%1) {axes=[1]} : f32[2]
    %3 = reshape(%2) {shape=[2, 1]} : f32[2, 1]
    %4 = broadcast(%3) {shape=[2, 4]} : f32[2, 4]
    %5 = div(%1, %4) : f32[2, 4]
    return %5
  })"),
            R"(graph(%0: f32[2, 4]) {
  %1 = exp(%0) : f32[2, 4]
  %2 = reduce_sum(%1) {axes=[1]} : f32[2]
  %3 = reshape(%2) {shape=[2, 1]} : f32[2, 1]
  %4 = fusion(%1, %3) region graph(%0: f32[2, 4], %1: f32[2, 1]) {
    %2 = broadcast(%1) {shape=[2, 4]} : f32[2, 4]
    %3 = div(%0, %2) : f32[2, 4]
    return %3
  } : f32[2, 4]
  return %4
}
)");
}

TEST(FuseElementwise, GivesOutEveryValueThatIsNeededOutside) {
  const Graph graph = fuse_elementwise(parse_graph(R"(graph(%0: f32[4]) {
    %1 = exp(%0) : f32[4]
    %2 = neg(%1) : f32[4]
    return %1, %2
  })"));
  verify(graph);
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0]->types.size(), 2u);
}

}  // namespace
}  // namespace transom
