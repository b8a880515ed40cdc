// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "passes/passes.h"

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
