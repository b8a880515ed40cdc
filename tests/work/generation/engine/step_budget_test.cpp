// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/step_budget.h"

#include <gtest/gtest.h>

#include "work/generation/engine/paged/step_shape.h"

namespace transom {
namespace {

// A device on which a step costs 10 ms and each token `token` seconds.
double seconds_of(int64_t tokens, double token = 1e-3) { return 0.01 + token * static_cast<double>(tokens); }

TEST(StepBudget, NobodyWaitsOrNoLimit) {
  StepBudget budget(0.1, 512);
  EXPECT_EQ(budget.tokens(4, 1), 512);  // nothing is known yet
  budget.note(512, 1.0);
  EXPECT_EQ(budget.tokens(0, 1), 512);
  EXPECT_LT(budget.tokens(4, 1), 512);
  StepBudget unlimited(0, 512);
  unlimited.note(512, 1.0);
  EXPECT_EQ(unlimited.tokens(4, 1), 512);
}

TEST(StepBudget, StepsComeToTakeTheTimeThatTheyShould) {
  StepBudget budget(0.1, 512);
  budget.note(512, 20 * seconds_of(512));  // the first one compiles
  for (int i = 0; i < 50; ++i) {
    const int64_t tokens = budget.tokens(4, 1);
    EXPECT_EQ(tokens, floor_tokens(tokens));
    budget.note(tokens, seconds_of(tokens));
  }
  EXPECT_LE(seconds_of(budget.tokens(4, 1)), 0.11);
  EXPECT_GE(seconds_of(budget.tokens(4, 1)), 0.07);  // sizes are few
  for (int i = 0; i < 200; ++i) budget.note(budget.tokens(4, 1), seconds_of(budget.tokens(4, 1), 4e-3));  // slower
  EXPECT_LE(seconds_of(budget.tokens(4, 1), 4e-3), 0.12);
}

TEST(StepBudget, OneLongStepChangesLittle) {
  StepBudget budget(0.1, 512);
  for (int i = 0; i < 50; ++i) budget.note(budget.tokens(4, 1), seconds_of(budget.tokens(4, 1)));
  const int64_t before = budget.tokens(4, 1);
  budget.note(before, 60);
  EXPECT_GE(budget.tokens(4, 1), before / 2);
}

// What a step costs whatever its tokens is told apart from what each token costs.
TEST(StepBudget, KnowsTheStepFromItsTokens) {
  StepBudget budget(0.15, 512);
  const auto taken = [](int64_t tokens) { return seconds_of(tokens, 1e-4) + 0.09; };
  for (int i = 0; i < 100; ++i) budget.note(i % 2 ? 8 : 256, taken(i % 2 ? 8 : 256));
  const double time = taken(budget.tokens(8, 0));
  EXPECT_GE(time, 0.12);  // 0.11 if a token cost what it does in the long one
  EXPECT_LE(time, 0.18);
}

// Of a large model a step that only writes takes longer than was wished: then prompts add half of it, and more only
// where more texts wait than are written.
TEST(StepBudget, FollowsTheTimeOfWriting) {
  StepBudget budget(0.1, 512);
  for (int i = 0; i < 50; ++i) budget.note(8, 0.8);
  EXPECT_EQ(budget.tokens(8, 0), 16);  // at least some
  StepBudget even(0.1, 512);
  for (int i = 0; i < 50; ++i) even.note(100, 10);
  EXPECT_EQ(even.tokens(32, 0), 48);
  EXPECT_EQ(even.tokens(32, 32), floor_tokens(112));
  EXPECT_EQ(even.tokens(32, 320), 512);
  EXPECT_EQ(even.tokens(512, 8), 512);
}

}  // namespace
}  // namespace transom
