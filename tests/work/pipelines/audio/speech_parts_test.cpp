// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/speech_parts.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

std::vector<double> chances() {
  std::vector<double> chances;
  const auto add = [&](int count, double chance) { chances.insert(chances.end(), static_cast<size_t>(count), chance); };
  add(3, 0.1), add(12, 0.9), add(2, 0.2), add(9, 0.8), add(10, 0.05);
  add(1, 0.6), add(1, 0.4), add(1, 0.7), add(10, 0.9), add(8, 0.1);
  return chances;
}

using Places = std::vector<std::pair<int64_t, int64_t>>;
Places places(const std::vector<double>& chances, int64_t samples, const SpeechRule& rule) {
  Places result;
  for (const SpeechPart& part : speech_parts(chances, samples, rule)) result.emplace_back(part.begin, part.end);
  return result;
}

// The numbers are those of silero-vad's get_speech_timestamps_from_probs.
TEST(SpeechParts, AreThoseOfSilero) {
  const int64_t samples = 57 * 512 - 100;
  EXPECT_EQ(places(chances(), samples, {}), (Places{{1056, 13792}, {17952, 25568}}));
  SpeechRule rule;
  rule.most_speech_s = 0.6;
  EXPECT_EQ(places(chances(), samples, rule), (Places{{1056, 10208}, {17952, 27104}}));
}

TEST(SpeechParts, StayWithinTheSound) {
  SpeechRule rule;
  rule.padding_ms = 1e6;
  EXPECT_EQ(places(chances(), 57 * 512, rule), (Places{{0, 15872}, {15872, 57 * 512}}));
  EXPECT_TRUE(places({}, 0, {}).empty());
  EXPECT_TRUE(places({0.9}, 512, {}).empty());  // shorter than speech is
}

}  // namespace
}  // namespace transom
