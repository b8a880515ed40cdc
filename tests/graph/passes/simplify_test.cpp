// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/passes/passes.h"

namespace transom {
namespace {

std::string simplified(std::string_view text) { return print_graph(simplify(parse_graph(text))); }

TEST(Simplify, JoinsCommonSubexpressions) {
  EXPECT_EQ(simplified(R"(graph(%0: f32[4]) {
    %1 = exp(%0) : f32[4]
    %2 = exp(%0) : f32[4]
    %3 = add(%1, %2) : f32[4]
    return %3
  })"),
            R"(graph(%0: f32[4]) {
  %1 = exp(%0) : f32[4]
  %2 = add(%1, %1) : f32[4]
  return %2
}
)");
}

TEST(Simplify, KeepsWhatDiffersInAttributes) {
  const std::string text = R"(graph(%0: f32[4, 4]) {
  %1 = reduce_sum(%0) {axes=[0]} : f32[4]
  %2 = reduce_sum(%0) {axes=[1]} : f32[4]
  %3 = add(%1, %2) : f32[4]
  return %3
}
)";
  EXPECT_EQ(simplified(text), text);
}

// The rows of a table that is stored narrower than it is read; not where the cast loses digits, nor of more rows than
// the table has.
TEST(Simplify, WidensTheRowsOfATable) {
  const auto rows_of = [](const char* stored, const char* read, const char* dtype, int rows) {
    return simplified(fmt::format(R"(graph(%0: {0}[9, 4], %1: i64[{3}]) {{
  %2 = cast(%0) {{dtype={2}}} : {1}[9, 4]
  %3 = gather(%2, %1) {{axis=0}} : {1}[{3}, 4]
  return %3
}}
)",
                                  stored, read, dtype, rows));
  };
  EXPECT_EQ(rows_of("bf16", "f32", "8", 2), R"(graph(%0: bf16[9, 4], %1: i64[2]) {
  %2 = gather(%0, %1) {axis=0} : bf16[2, 4]
  %3 = cast(%2) {dtype=8} : f32[2, 4]
  return %3
}
)");
  for (const std::string& kept : {rows_of("f32", "bf16", "7", 2), rows_of("bf16", "f32", "8", 9)})
    EXPECT_LT(kept.find("cast"), kept.find("gather")) << kept;
}

TEST(Simplify, DropsNeutralElements) {
  EXPECT_EQ(simplified(R"(graph(%0: f32[4]) {
    %1 = constant() {dtype=8, value=1.0} : f32[]
    %2 = reshape(%1) {shape=[1]} : f32[1]
    %3 = broadcast(%2) {shape=[4]} : f32[4]
    %4 = mul(%0, %3) : f32[4]
    %5 = neg(%4) : f32[4]
    return %5
  })"),
            R"(graph(%0: f32[4]) {
  %1 = neg(%0) : f32[4]
  return %1
}
)");
}

// x + 0 is 0 for x = -0, and so is x - -0; only the other zero leaves every number as it is.
TEST(Simplify, KnowsTheZeroThatIsNeutral) {
  const auto of_zero = [](const char* operation, const char* zero) {
    return simplified(fmt::format(R"(graph(%0: f32[4]) {{
    %1 = constant() {{dtype=8, value={}}} : f32[]
    %2 = reshape(%1) {{shape=[1]}} : f32[1]
    %3 = broadcast(%2) {{shape=[4]}} : f32[4]
    %4 = {}(%0, %3) : f32[4]
    %5 = exp(%4) : f32[4]
    return %5
  }})",
                                  zero, operation));
  };
  const std::string alone = R"(graph(%0: f32[4]) {
  %1 = exp(%0) : f32[4]
  return %1
}
)";
  EXPECT_EQ(of_zero("add", "-0.0"), alone);
  EXPECT_EQ(of_zero("sub", "0.0"), alone);
  EXPECT_NE(of_zero("add", "0.0"), alone);
  EXPECT_NE(of_zero("sub", "-0.0"), alone);
}

// What the gradient of a split looks like.
TEST(Simplify, PutsPaddedNeighboursBehindEachOther) {
  EXPECT_EQ(simplified(R"(graph(%0: f32[3, 2], %1: f32[3, 1], %2: f32[3, 4]) {
    %3 = pad(%0) {high=[0, 5], low=[0, 0], value=0.0} : f32[3, 7]
    %4 = pad(%1) {high=[0, 4], low=[0, 2], value=0.0} : f32[3, 7]
    %5 = pad(%2) {high=[0, 0], low=[0, 3], value=0.0} : f32[3, 7]
    %6 = add(%4, %3) : f32[3, 7]
    %7 = add(%6, %5) : f32[3, 7]
    return %7
  })"),
            R"(graph(%0: f32[3, 2], %1: f32[3, 1], %2: f32[3, 4]) {
  %3 = concatenate(%0, %1, %2) {axis=1} : f32[3, 7]
  return %3
}
)");
}

TEST(Simplify, KeepsPaddingsThatMeetNowhereOrOverlap) {
  const std::string text = R"(graph(%0: f32[3, 2], %1: f32[3, 2]) {
  %2 = pad(%0) {high=[0, 2], low=[0, 0], value=0.0} : f32[3, 4]
  %3 = pad(%1) {high=[0, 1], low=[0, 1], value=0.0} : f32[3, 4]
  %4 = add(%2, %3) : f32[3, 4]
  return %4
}
)";
  EXPECT_EQ(simplified(text), text);
}

TEST(Simplify, CancelsMovement) {
  EXPECT_EQ(simplified(R"(graph(%0: f32[2, 6]) {
    %1 = reshape(%0) {shape=[3, 4]} : f32[3, 4]
    %2 = reshape(%1) {shape=[2, 6]} : f32[2, 6]
    %3 = permute(%2) {permutation=[1, 0]} : f32[6, 2]
    %4 = permute(%3) {permutation=[1, 0]} : f32[2, 6]
    %5 = neg(%4) : f32[2, 6]
    return %5
  })"),
            R"(graph(%0: f32[2, 6]) {
  %1 = neg(%0) : f32[2, 6]
  return %1
}
)");
}

// Sums over all rows, before the axes of the rows were joined.
TEST(Simplify, SumsOverRowsWithoutReshaping) {
  EXPECT_EQ(simplified(R"(graph(%0: f32[2, 3, 4]) {
    %1 = reshape(%0) {shape=[6, 4]} : f32[6, 4]
    %2 = reduce_sum(%1) {axes=[0]} : f32[4]
    return %2
  })"),
            R"(graph(%0: f32[2, 3, 4]) {
  %1 = reduce_sum(%0) {axes=[0, 1]} : f32[4]
  return %1
}
)");
  // Other rows, or none.
  for (const std::string_view before : {"f32[2, 12]", "f32[6, 2, 2]", "f32[24]"}) {
    const std::string text = fmt::format(R"(graph(%0: {}) {{
  %1 = reshape(%0) {{shape=[6, 4]}} : f32[6, 4]
  %2 = reduce_sum(%1) {{axes=[0]}} : f32[4]
  return %2
}}
)",
                                         before);
    EXPECT_EQ(simplified(text), text);
  }
}

TEST(Simplify, NeverJoinsDifferentDraws) {
  const std::string text = R"(graph(%0: i64[2], %1: i64[2]) {
  %2 = random_bits(%0) {shape=[4]} : u32[4]
  %3 = random_bits(%1) {shape=[4]} : u32[4]
  return %2, %3
}
)";
  EXPECT_EQ(simplified(text), text);
}

}  // namespace
}  // namespace transom
