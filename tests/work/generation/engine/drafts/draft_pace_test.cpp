// SPDX-License-Identifier: Apache-2.0
// How many tokens are drafted, from made-up times and acceptance.
#include "work/generation/engine/drafts/draft_pace.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace transom {
namespace {

std::unique_ptr<Sequence> text() {
  auto taken = std::make_shared<AdmittedRequest>();
  taken->request.prompt.tokens = {1, 2};
  taken->length = 1000;
  taken->rules = std::make_shared<const SamplingRules>(taken->request, taken->length, 10);
  return std::make_unique<Sequence>(taken, 0, nullptr);
}

struct Outcome {
  double seconds = 0;  // of all steps
  int64_t tokens = 0;  // written
  int64_t drafted = 0;
};

// Texts of which each token of a draft is accepted by its chance, on a machine whose steps take `time(tokens)`.
Outcome played(const std::vector<double>& chances, const std::function<double(int64_t)>& time, int64_t steps,
               bool measured = true) {
  DraftPace pace(measured, 0);
  std::mt19937 random(3);
  std::vector<std::unique_ptr<Sequence>> texts;
  for (size_t i = 0; i < chances.size(); ++i) texts.push_back(text());
  const auto rows = static_cast<int64_t>(texts.size());
  Outcome outcome;
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<Draft> drafts;
    for (const auto& each : texts) drafts.push_back({.sequence = each.get(), .most = 5, .matched = 4});
    const std::vector<int64_t> counts = pace.worth(drafts, rows, 100);
    int64_t tokens = rows;
    for (const int64_t count : counts) tokens += count;
    pace.note_step(tokens, time(tokens));
    outcome.seconds += time(tokens);
    for (size_t i = 0; i < drafts.size(); ++i) {
      int64_t accepted = 0;
      while (accepted < counts[i] && static_cast<double>(random() % 1000) < 1000 * chances[i]) ++accepted;
      if (counts[i] > 0) pace.note_result(drafts[i], counts[i], accepted);
      outcome.tokens += 1 + accepted, outcome.drafted += counts[i];
    }
  }
  return outcome;
}

double speed(const Outcome& outcome) { return static_cast<double>(outcome.tokens) / outcome.seconds; }

TEST(DraftPace, TakesAllWhereNothingIsMeasured) {
  DraftPace pace(false, 0);
  const auto one = text(), two = text();
  const std::vector<Draft> drafts{{.sequence = one.get(), .most = 5}, {.sequence = two.get(), .most = 2}};
  EXPECT_EQ(pace.worth(drafts, 2, 100), (std::vector<int64_t>{5, 2}));
  EXPECT_EQ(pace.worth(drafts, 2, 5), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(pace.worth(drafts, 2, 0), (std::vector<int64_t>{0, 0}));
}

// Weights are read once a step, whatever is computed with them.
TEST(DraftPace, DraftsMuchWhereTokensCostNothing) {
  const auto flat = [](int64_t) { return 1.0; };
  EXPECT_GT(speed(played({0.9}, flat, 400)), 3.5);
  EXPECT_GT(speed(played({0.3}, flat, 400)), 1.3);
}

TEST(DraftPace, IsHardlySlowerWhereDraftsLose) {
  const auto flat = [](int64_t n) { return 1 + 0.02 * static_cast<double>(n - 1); };
  const auto steep = [](int64_t n) { return static_cast<double>(n); };  // each token costs what the first does
  const auto half = [](int64_t n) { return 1 + 0.5 * static_cast<double>(n - 1); };
  EXPECT_GT(speed(played({0}, flat, 2000)), 0.98);
  EXPECT_GT(speed(played({0}, half, 2000)), 0.97);
  EXPECT_GT(speed(played({0.2}, half, 2000)), 0.97);
  EXPECT_GT(speed(played({0.5}, steep, 2000)), 0.97);
  EXPECT_LT(speed(played({0}, half, 2000, false)), 0.3);  // without measure
}

TEST(DraftPace, OneTextThatLosesDoesNotStopTheOthers) {
  const auto time = [](int64_t n) { return 1 + 0.1 * static_cast<double>(n - 1); };
  const Outcome both = played({0.95, 0}, time, 1000), none = played({0, 0}, time, 1000);
  EXPECT_GT(speed(both), 1.3 * speed(none));
}

// Beside a text without drafts a step gets little longer.
TEST(DraftPace, OthersDoNotWaitForDrafts) {
  DraftPace pace(true, 0);
  const auto one = text(), two = text();
  for (int i = 0; i < 20; ++i)
    for (int64_t tokens = 1; tokens < 9; ++tokens) pace.note_step(tokens, static_cast<double>(tokens) * 0.3 + 1);
  const std::vector<Draft> drafts{{.sequence = one.get(), .most = 6, .matched = 30}};
  for (int i = 0; i < 50; ++i) pace.note_result(drafts[0], 4, 4);
  const int64_t alone = pace.worth(drafts, 1, 100)[0], beside = pace.worth(drafts, 2, 100)[0];
  EXPECT_GE(alone, 4);
  EXPECT_EQ(beside, 0);
}

TEST(PassTimes, LeaveOutTheFirstAndLieBetweenNeighbours) {
  PassTimes times;
  EXPECT_EQ(times.of(3), 1);
  times.note(1, 100), times.note(4, 100);  // compiled
  EXPECT_EQ(times.of(1), 1);
  EXPECT_FALSE(times.knows(1));
  for (int i = 0; i < 20; ++i) times.note(1, 2), times.note(4, 5);
  EXPECT_DOUBLE_EQ(times.of(1), 2);
  EXPECT_DOUBLE_EQ(times.of(2), 3);
  EXPECT_TRUE(times.knows(3));
  EXPECT_FALSE(times.knows(9));
  EXPECT_DOUBLE_EQ(times.of(9), 5);  // until it is tried
  EXPECT_DOUBLE_EQ(times.of_one_more(), 1);
  times.note(4, 500);
  EXPECT_LT(times.of(4), 6);
}

}  // namespace
}  // namespace transom
