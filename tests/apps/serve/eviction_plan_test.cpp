// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/models/eviction_plan.h"

#include <gtest/gtest.h>

namespace transom::serve {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Room : public testing::Test {
 protected:
  ModelState& in_memory(int64_t bytes, uint64_t last_use) {
    models.push_back(
        {.bytes = bytes, .in_memory = true, .answered = true, .loaded = now - seconds(60), .last_use = last_use});
    return models.back();
  }
  void wanted(int64_t bytes, uint64_t since) { models.push_back({.bytes = bytes, .wanted = since}); }
  EvictionPlan plan(int64_t budget) const { return plan_evictions(models, budget, now); }
  using Places = std::vector<size_t>;
  using Flags = std::vector<bool>;

  const std::chrono::steady_clock::time_point now{std::chrono::hours(1)};
  std::vector<ModelState> models;
};

TEST_F(Room, NobodyGoesWhereThereIsRoom) {
  in_memory(4, 1);
  EXPECT_FALSE(plan(10).load);
  wanted(6, 2);
  EXPECT_EQ(plan(10).load, 1u);
  EXPECT_TRUE(plan(10).unload.empty());
}

TEST_F(Room, WhoIsUsedLeastRecentlyGoes) {
  in_memory(4, 5);
  in_memory(4, 3);
  in_memory(2, 4);
  wanted(4, 6);
  EXPECT_EQ(plan(10).load, 3u);
  EXPECT_EQ(plan(10).unload, Places({1}));
}

TEST_F(Room, AModelThatWasLoadedAnswersFirst) {
  ModelState& fresh = in_memory(6, 1);
  fresh.answered = false;
  fresh.loaded = now - seconds(1);
  wanted(6, 2);
  EXPECT_FALSE(plan(10).load);
  EXPECT_EQ(plan(10).look_again, now + seconds(2));
  EXPECT_EQ(plan(10).leaving, Flags({false, false}));  // it may still be asked
  models[0].answered = true;
  EXPECT_EQ(plan(10).load, 1u);
  // Or it goes because nobody asks.
  models[0].answered = false, models[0].loaded = now - kTimeForFirstAnswer;
  EXPECT_EQ(plan(10).load, 1u);
}

TEST_F(Room, AModelInUseTakesNoMoreAndGoesWhenItsAnswersEnd) {
  in_memory(6, 1).leases = 1;
  wanted(6, 2);
  EXPECT_FALSE(plan(10).load);
  EXPECT_EQ(plan(10).leaving, Flags({true, false}));
  models[0].leases = 0;
  EXPECT_EQ(plan(10).load, 1u);
  EXPECT_EQ(plan(10).unload, Places({0}));
}

TEST_F(Room, ALongAnswerHoldsUpOnlyWhoNeedsItsRoom) {
  in_memory(6, 1).leases = 1;
  in_memory(3, 2);
  wanted(7, 3);
  wanted(3, 4);
  // Both in memory go for the first; the second waits for nobody, and its room is not part of what the first needs.
  const EvictionPlan crowded = plan(10);
  EXPECT_EQ(crowded.leaving, Flags({true, false, false, false}));
  EXPECT_EQ(crowded.load, 3u);
  EXPECT_EQ(crowded.unload, Places({1}));
}

TEST_F(Room, WhatTheFirstNeedsIsKeptForIt) {
  in_memory(6, 1).leases = 1;
  wanted(10, 3);
  wanted(3, 4);  // there is room for it, but then the first would wait for this one, too
  EXPECT_FALSE(plan(10).load);
  EXPECT_EQ(plan(10).leaving, Flags({true, false, false}));
}

TEST_F(Room, WhoLeavesGoesOnLeaving) {
  ModelState& leaving = in_memory(6, 9);
  leaving.leases = 1, leaving.leaving = true;
  in_memory(6, 1).leases = 1;
  wanted(6, 2);
  EXPECT_EQ(plan(12).leaving, Flags({true, false, false}));
}

TEST_F(Room, AModelLargerThanAllIsLoadedAlone) {
  in_memory(1, 1);
  wanted(20, 2);
  EXPECT_EQ(plan(10).load, 1u);
  EXPECT_EQ(plan(10).unload, Places({0}));
}

}  // namespace
}  // namespace transom::serve
