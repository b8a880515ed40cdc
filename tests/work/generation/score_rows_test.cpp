// SPDX-License-Identifier: Apache-2.0
#include "work/generation/search/score_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace transom {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_scores(size_t count, unsigned seed, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> scores(count);
  for (float& score : scores) score = normal(random);
  return scores;
}

TEST(ScoreRows, SumsExponentialsOfAnyCount) {
  for (const size_t count : {1, 7, 16, 17, 40, 1000, 32128})
    for (const float spread : {0.01f, 1.0f, 30.0f}) {
      const std::vector<float> scores = random_scores(count, 3, spread);
      const float highest = highest_of(scores);
      EXPECT_EQ(highest, *std::max_element(scores.begin(), scores.end()));
      double exact = 0;
      for (const float score : scores) exact += std::exp(static_cast<double>(score - highest));
      EXPECT_NEAR(sum_of_exponentials(scores, highest) / exact, 1, 2e-7) << count << ' ' << spread;
    }
}

TEST(ScoreRows, EachExponentialIsNearTheExactOne) {
  for (float x = 0; x > -86; x -= 0.0137f)
    EXPECT_NEAR(sum_of_exponentials(std::vector<float>{x}, 0) / std::exp(static_cast<double>(x)), 1, 2e-7) << x;
}

TEST(ScoreRows, WhatIsForbiddenCountsForNothing) {
  std::vector<float> scores = random_scores(100, 5, 1);
  const double alone = sum_of_exponentials(scores, 9);
  scores.insert(scores.begin() + 20, 50, -kInfinity);
  EXPECT_NEAR(sum_of_exponentials(scores, 9) / alone, 1, 1e-12);
  EXPECT_EQ(highest_of(std::vector<float>(20, -kInfinity)), -kInfinity);
}

TEST(ScoreRows, FindsNaNAndTheFirstOfEqualsAnywhere) {
  for (const size_t count : {1, 3, 16, 17, 31, 1000})
    for (size_t place = 0; place < count; place += 1 + count / 40) {
      std::vector<float> scores = random_scores(count, 11, 1);
      EXPECT_FALSE(holds_nan(scores));
      scores[place] = scores.back() = 9;
      EXPECT_EQ(place_of(scores, highest_of(scores)), place);
      EXPECT_EQ(place_of(scores, 10), count);
      scores[place] = -std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(holds_nan(scores)) << count << ' ' << place;
    }
  EXPECT_EQ(place_of(std::vector<float>{1, -0.0f, 0.0f}, 0.0f), 1u);  // as std::max_element has it
}

TEST(ScoreRows, NaNShows) {
  for (const size_t place : {0, 5, 39}) {
    std::vector<float> scores = random_scores(40, 7, 1);
    scores[place] = std::nanf("");
    EXPECT_TRUE(std::isnan(sum_of_exponentials(scores, highest_of(scores)))) << place;
    EXPECT_FALSE(clearly_highest(scores, 3)) << place;
  }
}

TEST(ScoreRows, FindsTheHighest) {
  for (const size_t size : {2, 15, 16, 100, 5000})
    for (const size_t count : {1, 4, 14}) {
      if (count >= size) continue;
      const std::vector<float> scores = random_scores(size, static_cast<unsigned>(size + count), 2);
      std::vector<size_t> order(size);
      std::iota(order.begin(), order.end(), size_t{0});
      std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
      order.resize(count);
      EXPECT_EQ(clearly_highest(scores, count), order) << size << ' ' << count;
    }
}

TEST(ScoreRows, LeavesEqualScoresToOthers) {
  std::vector<float> scores(64, -kInfinity);
  EXPECT_FALSE(clearly_highest(scores, 2));
  scores[3] = 1, scores[50] = 2, scores[51] = 1.5f, scores[9] = 1;
  EXPECT_EQ(clearly_highest(scores, 2), (std::vector<size_t>{50, 51}));
  EXPECT_FALSE(clearly_highest(scores, 3));  // 3 or 9
  EXPECT_FALSE(clearly_highest(scores, 4));
  EXPECT_FALSE(clearly_highest(scores, 64));
}

}  // namespace
}  // namespace transom
