// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "passes/passes.h"

namespace transom {
namespace {

std::string fused(std::string_view text) {
  const Graph graph = fuse_rows(parse_graph(text));
  verify(graph);
  return print_graph(graph);
}

// A norm: what stands before the reduction, one number a row, and what spreads it over the row again.
TEST(FuseRows, MakesOneKernelOfANorm) {
  EXPECT_EQ(fused(R"(graph(%0: f32[3, 4], %1: f32[3, 4]) {
    %2 = mul(%0, %1) : f32[3, 4]
    %3 = reduce_sum(%2) {axes=[1]} : f32[3]
    %4 = reshape(%3) {shape=[3, 1]} : f32[3, 1]
    %5 = rsqrt(%4) : f32[3, 1]
    %6 = fusion(%0, %5) region graph(%0: f32[3, 4], %1: f32[3, 1]) {
      %2 = broadcast(%1) {shape=[3, 4]} : f32[3, 4]
      %3 = mul(%0, %2) : f32[3, 4]
      return %3
    } : f32[3, 4]
    return %6
  })"),
            R"(graph(%0: f32[3, 4], %1: f32[3, 4]) {
  %2 = row_fusion(%0, %1) region graph(%0: f32[3, 4], %1: f32[3, 4]) {
    %2 = mul(%0, %1) : f32[3, 4]
    %3 = reduce_sum(%2) {axes=[1]} : f32[3]
    %4 = reshape(%3) {shape=[3, 1]} : f32[3, 1]
    %5 = rsqrt(%4) : f32[3, 1]
    %6 = fusion(%0, %5) region graph(%0: f32[3, 4], %1: f32[3, 1]) {
      %2 = broadcast(%1) {shape=[3, 4]} : f32[3, 4]
      %3 = mul(%0, %2) : f32[3, 4]
      return %3
    } : f32[3, 4]
    return %6
  } : f32[3, 4]
  return %2
}
)");
}

// The logarithms of the probabilities are read by the group alone; the loss of each row is all that leaves it.
TEST(FuseRows, TakesRowsOfComposites) {
  EXPECT_EQ(fused(R"(graph(%0: f32[3, 4], %1: bool[3, 4], %2: f32[3, 4]) {
    %3 = log_softmax(%0) : f32[3, 4]
    %4 = select(%1, %3, %2) : f32[3, 4]
    %5 = reduce_sum(%4) {axes=[1]} : f32[3]
    return %5
  })"),
            R"(graph(%0: f32[3, 4], %1: bool[3, 4], %2: f32[3, 4]) {
  %3 = row_fusion(%0, %1, %2) region graph(%0: f32[3, 4], %1: bool[3, 4], %2: f32[3, 4]) {
    %3 = log_softmax(%0) : f32[3, 4]
    %4 = select(%1, %3, %2) : f32[3, 4]
    %5 = reduce_sum(%4) {axes=[1]} : f32[3]
    return %5
  } : f32[3]
  return %3
}
)");
}

// What is read outside is an output besides.
TEST(FuseRows, KeepsWhatOthersRead) {
  EXPECT_EQ(fused(R"(graph(%0: f32[3, 4], %1: f32[3, 4], %2: f32[4], %3: f32[4]) {
    %4 = add(%0, %1) : f32[3, 4]
    %5 = layer_norm(%4, %2, %3) {epsilon=1e-05} : f32[3, 4]
    return %4, %5
  })"),
            R"(graph(%0: f32[3, 4], %1: f32[3, 4], %2: f32[4], %3: f32[4]) {
  %4, %5 = row_fusion(%0, %1, %2, %3) region graph(%0: f32[3, 4], %1: f32[3, 4], %2: f32[4], %3: f32[4]) {
    %4 = add(%0, %1) : f32[3, 4]
    %5 = layer_norm(%4, %2, %3) {epsilon=1e-05} : f32[3, 4]
    return %4, %5
  } : f32[3, 4], f32[3, 4]
  return %4, %5
}
)");
}

// A graph that the pass must leave as it is.
void expect_unchanged(std::string_view text) { EXPECT_EQ(fused(text), print_graph(parse_graph(text))); }

TEST(FuseRows, LeavesSingleNodes) {
  expect_unchanged(R"(graph(%0: f32[3, 4]) {
    %1 = softmax(%0) : f32[3, 4]
    return %1
  })");
}

// The sum is over all rows before any of them can be read.
TEST(FuseRows, LeavesReductionsOfOtherAxes) {
  expect_unchanged(R"(graph(%0: f32[3, 4]) {
    %1 = exp(%0) : f32[3, 4]
    %2 = reduce_sum(%1) {axes=[0]} : f32[4]
    %3 = reshape(%2) {shape=[1, 4]} : f32[1, 4]
    %4 = fusion(%1, %3) region graph(%0: f32[3, 4], %1: f32[1, 4]) {
      %2 = broadcast(%1) {shape=[3, 4]} : f32[3, 4]
      %3 = mul(%0, %2) : f32[3, 4]
      return %3
    } : f32[3, 4]
    return %4
  })");
}

// The second row of the result needs the first row of the sum.
TEST(FuseRows, LeavesWhatReadsOtherRows) {
  expect_unchanged(R"(graph(%0: f32[4, 4]) {
    %1 = reduce_sum(%0) {axes=[1]} : f32[4]
    %2 = reshape(%1) {shape=[1, 4]} : f32[1, 4]
    %3 = fusion(%0, %2) region graph(%0: f32[4, 4], %1: f32[1, 4]) {
      %2 = broadcast(%1) {shape=[4, 4]} : f32[4, 4]
      %3 = mul(%0, %2) : f32[4, 4]
      return %3
    } : f32[4, 4]
    return %3
  })");
}

// A total over everything is made by the fusion itself.
TEST(FuseRows, LeavesOneRow) {
  expect_unchanged(R"(graph(%0: f32[1, 4]) {
    %1 = exp(%0) : f32[1, 4]
    %2 = reduce_max(%1) {axes=[1]} : f32[1]
    return %2
  })");
}

// Once somebody outside has read the group, it takes nobody more: it stands before that reader.
TEST(FuseRows, EndsAtAReaderOutside) {
  EXPECT_EQ(fused(R"(graph(%0: f32[3, 4], %1: f32[5, 4]) {
    %2 = exp(%0) : f32[3, 4]
    %3 = reduce_sum(%2) {axes=[1]} : f32[3]
    %4 = linear(%2, %1) : f32[3, 5]
    %5 = log(%3) : f32[3]
    return %4, %5
  })"),
            R"(graph(%0: f32[3, 4], %1: f32[5, 4]) {
  %2, %3 = row_fusion(%0) region graph(%0: f32[3, 4]) {
    %1 = exp(%0) : f32[3, 4]
    %2 = reduce_sum(%1) {axes=[1]} : f32[3]
    return %1, %2
  } : f32[3, 4], f32[3]
  %4 = linear(%2, %1) : f32[3, 5]
  %5 = log(%3) : f32[3]
  return %4, %5
}
)");
}

}  // namespace
}  // namespace transom
