// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/policies/advantages.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace transom {
namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

double measured(const Advantages& advantages, const std::string& name) {
  for (const auto& [each, value] : advantages.measured)
    if (each == name) return value;
  return -1;
}

TEST(Advantages, AreDistancesFromTheGroup) {
  const RewardTable rewards{{"a"}, {{1, 0, 1, 1}}};
  const Advantages scaled = advantages_of(rewards, {}, 2, {.weights = {1}});
  const float half = static_cast<float>(0.5 / (std::sqrt(0.5) + 1e-4));
  EXPECT_NEAR(scaled.values[0], half, 1e-6);
  EXPECT_NEAR(scaled.values[1], -half, 1e-6);
  EXPECT_EQ(scaled.values[2], 0);
  EXPECT_EQ(measured(scaled, "frac_reward_zero_std"), 0.5);
  EXPECT_EQ(measured(scaled, "reward"), 0.75);
  const Advantages plain = advantages_of(rewards, {}, 2, {.weights = {2}, .scale = AdvantageOptions::Scale::kNone});
  EXPECT_EQ(plain.values, (std::vector<float>{1, -1, 0, 0}));
}

TEST(Advantages, LeaveOutWhatNothingIsSaidOf) {
  const RewardTable rewards{{"a", "b"}, {{1, kNone, 0}, {kNone, kNone, 2}}};
  const Advantages found = advantages_of(rewards, {}, 3, {.weights = {1, 1}, .scale = AdvantageOptions::Scale::kNone});
  EXPECT_EQ(found.values, (std::vector<float>{-0.5, 0, 0.5}));
  EXPECT_EQ(measured(found, "reward"), 1.5);
}

TEST(Advantages, OfOneAgainstTheOthers) {
  const RewardTable rewards{{"a"}, {{3, 0, 0}}};
  const Advantages found = advantages_of(rewards, {0, 1, 0}, 3, {.leave_one_out = true, .weights = {1}, .beta = 0.5});
  EXPECT_EQ(found.values, (std::vector<float>{3.25, -2, -1.25}));
  EXPECT_EQ(measured(found, "reward"), 1);  // without the divergence
}

TEST(PairPreferences, AreTheLargerRewardOfTwo) {
  const RewardTable rewards{{"a", "b"}, {{1, 0, 1, 1, 0, 2}, {kNone, kNone, 0, 0.5, 0, kNone}}};
  const PairPreferences found = preferences_of(rewards, {1, 2});
  EXPECT_EQ(found.sides.values, (std::vector<float>{1, -1, -1, 1, -1, 1}));
  EXPECT_EQ(found.scores, (std::vector<float>{1, 0, 1, 2, 0, 2}));
  EXPECT_EQ(measured(found.sides, "objective/scores"), 1.0);
  EXPECT_NEAR(measured(found.sides, "objective/scores_margin"), 4.0 / 3, 1e-12);
  // Of equal ones the first.
  EXPECT_EQ(preferences_of({{"a"}, {{3, 3}}}, {1}).sides.values, (std::vector<float>{1, -1}));
}

}  // namespace
}  // namespace transom
