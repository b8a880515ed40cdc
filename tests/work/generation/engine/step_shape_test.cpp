// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/step_shape.h"

#include <gtest/gtest.h>

#include <set>

namespace transom {
namespace {

TEST(StepShape, HasRoomAndLittleInExcess) {
  for (int64_t tokens = 1; tokens <= 600; ++tokens) {
    EXPECT_GE(rounded_tokens(tokens), tokens);
    EXPECT_LE(rounded_tokens(tokens), tokens <= 16 ? tokens : tokens + tokens / 4);
    EXPECT_LE(floor_tokens(tokens), tokens);
    EXPECT_EQ(floor_tokens(tokens), rounded_tokens(floor_tokens(tokens)));
    EXPECT_GT(3 * floor_tokens(tokens), 2 * tokens);
    EXPECT_EQ(rounded_scored(tokens, tokens), rounded_tokens(tokens));
    for (int64_t scored = 1; scored < tokens; ++scored) {
      EXPECT_GE(rounded_scored(scored, tokens), scored);
      EXPECT_LE(rounded_scored(scored, tokens), std::min(2 * scored, rounded_tokens(tokens)));
    }
  }
  EXPECT_EQ(rounded_scored(0, 5), 1);
}

// A program is kept for each: of steps of up to 64 texts beside prompts there are not many.
TEST(StepShape, ThereAreFew) {
  std::set<std::pair<int64_t, int64_t>> shapes;
  for (int64_t tokens = 1; tokens <= 512; ++tokens)
    for (int64_t scored = 1; scored <= std::min<int64_t>(tokens, 64); ++scored)
      shapes.emplace(rounded_tokens(tokens), rounded_scored(scored, tokens));
  EXPECT_LT(shapes.size(), 250u);
}

}  // namespace
}  // namespace transom
