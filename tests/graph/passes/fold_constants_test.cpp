// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/fold_constants.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

struct Printed {
  std::string graph;
  std::vector<std::string> values;
  std::vector<std::vector<size_t>> inputs;
};

Printed folded(std::string_view text, const std::vector<bool>& frozen) {
  const FoldedGraph result = fold_constants(parse_graph(text), frozen);
  verify(result.graph);
  Printed printed{print_graph(result.graph), {}, {}};
  for (const FoldedConstant& value : result.values) {
    verify(value.graph);
    printed.values.push_back(print_graph(value.graph));
    printed.inputs.push_back(value.inputs);
  }
  return printed;
}

TEST(FoldFrozen, TakesOutWhatIsComputedFromFrozenInputsAlone) {
  const Printed printed = folded(R"(graph(%0: f32[4], %1: f32[4], %2: f32[4]) {
  %3 = rsqrt(%2) : f32[4]
  %4 = mul(%1, %3) : f32[4]
  %5 = mul(%0, %4) : f32[4]
  return %5
})",
                                 {false, true, true});
  EXPECT_EQ(printed.graph, R"(graph(%0: f32[4], %1: f32[4], %2: f32[4], %3: f32[4]) {
  %4 = mul(%0, %3) : f32[4]
  return %4
}
)");
  ASSERT_EQ(printed.values.size(), 1u);
  EXPECT_EQ(printed.inputs[0].size(), 2u);
  EXPECT_NE(printed.values[0].find("rsqrt"), std::string::npos);
}

// Moved and cast weights are read where they are needed; a table that grows when it is spread is not kept.
TEST(FoldFrozen, LeavesMovementAndWhatGrows) {
  for (const char* text : {R"(graph(%0: f32[4], %1: f32[4]) {
  %2 = cast(%1) {dtype=7} : bf16[4]
  %3 = cast(%2) {dtype=8} : f32[4]
  %4 = mul(%0, %3) : f32[4]
  return %4
}
)",
                           R"(graph(%0: f32[2, 4], %1: f32[1, 4]) {
  %2 = broadcast(%1) {shape=[2, 4]} : f32[2, 4]
  %3 = neg(%2) : f32[2, 4]
  %4 = mul(%0, %3) : f32[2, 4]
  return %4
}
)"}) {
    const Printed printed = folded(text, {false, true});
    EXPECT_EQ(printed.graph, text);
    EXPECT_TRUE(printed.values.empty());
  }
}

TEST(FoldFrozen, LeavesWhatIsAnOutputAndWhatIsNotFrozen) {
  const char* text = R"(graph(%0: f32[4], %1: f32[4]) {
  %2 = neg(%1) : f32[4]
  %3 = mul(%0, %2) : f32[4]
  return %2, %3
}
)";
  EXPECT_EQ(folded(text, {false, true}).graph, text);
  EXPECT_EQ(folded(text, {false, false}).graph, text);
}

// A value of no elements takes no more bytes than no input at all.
TEST(FoldFrozen, LeavesWhatIsComputedFromNoInput) {
  const char* text = R"(graph(%0: f32[0], %1: f32[4]) {
  %2 = iota() {axis=0, dtype=8, shape=[0]} : f32[0]
  %3 = neg(%2) : f32[0]
  %4 = mul(%0, %3) : f32[0]
  %5 = neg(%1) : f32[4]
  return %4, %5
}
)";
  EXPECT_TRUE(folded(text, {false, true}).values.empty());
}

// What is spread over a large tensor is folded before it is spread.
TEST(FoldFrozen, FoldsBelowABroadcast) {
  const Printed printed = folded(R"(graph(%0: f32[8, 4], %1: f32[1, 4]) {
  %2 = rsqrt(%1) : f32[1, 4]
  %3 = broadcast(%2) {shape=[8, 4]} : f32[8, 4]
  %4 = mul(%0, %3) : f32[8, 4]
  return %4
})",
                                 {false, true});
  ASSERT_EQ(printed.values.size(), 1u);
  EXPECT_EQ(printed.values[0].find("broadcast"), std::string::npos);
}

}  // namespace
}  // namespace transom
