// SPDX-License-Identifier: Apache-2.0
#include "generation/engine/step_budget.h"

#include <gtest/gtest.h>

#include "generation/engine/step_shape.h"

namespace transom {
namespace {

// A device on which a step costs 10 ms and each token `token` seconds.
double seconds_of(int64_t tokens, double token = 1e-3) { return 0.01 + token * static_cast<double>(tokens); }

TEST(StepBudget, NobodyWaitsOrNoLimit) {
  StepBudget budget(0.1, 512);
  EXPECT_EQ(budget.tokens(4), 512);  // nothing is known yet
  budget.note(0, 512, 1.0);
  EXPECT_EQ(budget.tokens(0), 512);
  EXPECT_LT(budget.tokens(4), 512);
  StepBudget unlimited(0, 512);
  unlimited.note(0, 512, 1.0);
  EXPECT_EQ(unlimited.tokens(4), 512);
}

TEST(StepBudget, StepsComeToTakeTheTimeThatTheyShould) {
  StepBudget budget(0.1, 512);
  budget.note(0, 512, 20 * seconds_of(512));  // the first one compiles
  for (int i = 0; i < 50; ++i) {
    const int64_t tokens = budget.tokens(4);
    EXPECT_EQ(tokens, floor_tokens(tokens));
    budget.note(4, tokens, seconds_of(tokens));
  }
  EXPECT_LE(seconds_of(budget.tokens(4)), 0.1);
  EXPECT_GE(seconds_of(budget.tokens(4)), 0.075);
  for (int i = 0; i < 100; ++i) budget.note(4, budget.tokens(4), seconds_of(budget.tokens(4), 4e-3));  // it got slower
  EXPECT_LE(seconds_of(budget.tokens(4), 4e-3), 0.11);
}

TEST(StepBudget, OneLongStepChangesLittle) {
  StepBudget budget(0.1, 512);
  for (int i = 0; i < 50; ++i) budget.note(4, budget.tokens(4), seconds_of(budget.tokens(4)));
  const int64_t before = budget.tokens(4);
  budget.note(4, before, 60);
  EXPECT_GE(budget.tokens(4), before / 2);
}

// Of a large model a step that only writes takes longer than was wished: then prompts add half of it, and no more.
TEST(StepBudget, FollowsTheTimeOfWriting) {
  StepBudget budget(0.1, 512);
  budget.note(8, 8, 0.5);
  budget.note(0, 100, 1.0);
  EXPECT_EQ(budget.tokens(8), floor_tokens(75));
  StepBudget slow(0.1, 512);
  slow.note(0, 100, 100);
  EXPECT_EQ(slow.tokens(8), 16);  // prompts go on in any case
  EXPECT_EQ(slow.tokens(512), 512);
}

}  // namespace
}  // namespace transom
