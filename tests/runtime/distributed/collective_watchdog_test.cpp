// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/collective_watchdog.h"

#include <gtest/gtest.h>

#include "runtime/device/flight_recorder.h"

namespace transom {
namespace {

constexpr double kLongest = 10;

CollectiveProgress waits(uint64_t number, double seconds, const char* what = "all_reduce of 8 bytes of f32") {
  return {.started = number, .waits_in = number, .waited = seconds, .what = what};
}
CollectiveProgress through(uint64_t number) { return {.started = number}; }

TEST(TextOfRanks, IsReadBack) {
  for (const auto& [ranks, text] : std::vector<std::pair<std::vector<int64_t>, std::string>>{{{0}, "0"},
                                                                                             {{0, 1}, "0-1"},
                                                                                             {{0, 2}, "0,2"},
                                                                                             {{0, 1, 2, 3}, "0-3"},
                                                                                             {{1, 3, 5, 7}, "1-7:2"},
                                                                                             {{0, 1, 4, 5}, "0-1,4-5"},
                                                                                             {{0, 3, 4}, "0,3-4"}}) {
    EXPECT_EQ(text_of_ranks(ranks), text);
    EXPECT_EQ(ranks_of_text(text, 8), ranks) << text;
  }
  EXPECT_EQ(ranks_of_text("3>1", 4), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(ranks_of_text("host", 3), (std::vector<int64_t>{0, 1, 2}));
  for (const char* text : {"", "a", "0-", "-1", "0-8", "5-2", "0-4:0", "0,,1", "0-7,0-7,0-7,0-7", "1:2:3"})
    EXPECT_FALSE(ranks_of_text(text, 8)) << text;
}

TEST(RankProgressBytes, AreReadBack) {
  const RankProgress progress{{"0-3", waits(7, 1.5)}, {"0>1", through(3)}};
  const auto back = progress_of_bytes(bytes_of_progress(progress));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->at("0-3").waits_in, 7u);
  EXPECT_EQ(back->at("0-3").waited, 1.5);
  EXPECT_EQ(back->at("0-3").what, "all_reduce of 8 bytes of f32");
  EXPECT_EQ(back->at("0>1").started, 3u);
  EXPECT_FALSE(progress_of_bytes("junk"));
  const std::string bytes = bytes_of_progress(progress);
  for (size_t size = 1; size < bytes.size(); ++size)
    if (const auto cut = progress_of_bytes(bytes.substr(0, size))) {
      EXPECT_EQ(cut->size(), 1u);
    }
}

TEST(CollectiveWatchdog, IsQuietWhileNobodyWaitsForLong) {
  CollectiveWatchdog watchdog(2, kLongest);
  EXPECT_FALSE(watchdog.find());
  watchdog.take(0, {{"0-1", waits(5, 9.9)}});
  watchdog.take(1, {{"0-1", through(4)}});
  EXPECT_FALSE(watchdog.find());
}

TEST(CollectiveWatchdog, NamesWhoHasNotCome) {
  CollectiveWatchdog watchdog(3, kLongest);
  watchdog.take(0, {{"0-2", waits(5, 11)}});
  watchdog.take(1, {{"0-2", through(4)}});
  watchdog.take(2, {{"0-2", waits(5, 3)}});
  const auto late = watchdog.find();
  ASSERT_TRUE(late);
  EXPECT_EQ(late->rank, 1);
  EXPECT_EQ(late->text,
            "it has not come to collective 5 of ranks 0-2 (all_reduce of 8 bytes of f32), where rank 0 has "
            "waited for 11 seconds; its last one was 4");
}

// 0 waits for 1, 1 for 2, 2 for 3.
TEST(CollectiveWatchdog, FollowsTheWaits) {
  CollectiveWatchdog watchdog(4, kLongest);
  watchdog.take(0, {{"0-1", waits(2, 12)}});
  watchdog.take(1, {{"0-1", through(1)}, {"1-2", waits(4, 11)}});
  watchdog.take(2, {{"1-2", through(3)}, {"2>3", waits(9, 11)}});
  watchdog.take(3, {{"2>3", through(8)}});
  const auto late = watchdog.find();
  ASSERT_TRUE(late);
  EXPECT_EQ(late->rank, 3);
  EXPECT_NE(late->text.find("collective 9 of messages 2>3"), late->text.npos) << late->text;
}

// Each waits for the other: one of them is named, and the search ends.
TEST(CollectiveWatchdog, EndsInACircle) {
  CollectiveWatchdog watchdog(2, kLongest);
  watchdog.take(0, {{"0>1", waits(1, 12)}});
  watchdog.take(1, {{"1>0", waits(1, 12)}});
  EXPECT_TRUE(watchdog.find());
}

TEST(CollectiveWatchdog, TellsDifferentProgramsApart) {
  CollectiveWatchdog watchdog(2, kLongest);
  watchdog.take(0, {{"0-1", waits(5, 11)}});
  watchdog.take(1, {{"0-1", waits(5, 8, "all_gather of 16 bytes of f32")}});
  const auto late = watchdog.find();
  ASSERT_TRUE(late);
  EXPECT_EQ(late->rank, 1);
  EXPECT_NE(late->text.find("different programs"), late->text.npos) << late->text;
}

TEST(CollectiveWatchdog, NamesNobodyWhereAllHaveCome) {
  CollectiveWatchdog watchdog(2, kLongest);
  for (const int64_t rank : {0, 1}) watchdog.take(rank, {{"0-1", waits(5, 11)}});
  const auto late = watchdog.find();
  ASSERT_TRUE(late);
  EXPECT_LT(late->rank, 0);
  EXPECT_NE(late->text.find("all of its ranks came to it"), late->text.npos) << late->text;
}

}  // namespace
}  // namespace transom
