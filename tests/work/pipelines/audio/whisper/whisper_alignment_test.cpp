// SPDX-License-Identifier: Apache-2.0
// The way from attention to times, on small matrices.
#include <gtest/gtest.h>

#include "support/message.h"
#include "work/pipelines/audio/whisper/whisper_alignment.h"
#include "work/pipelines/audio/whisper/whisper_attempts.h"

namespace transom {
namespace {

TEST(WhisperAlignment, MediansMirrorTheEnds) {
  std::vector<float> row{5, 1, 4, 2, 3};
  median_filter(row, 3);
  EXPECT_EQ(row, (std::vector<float>{1, 4, 2, 3, 2}));
  std::vector<float> narrow{2, 9, 1};
  median_filter(narrow, 7);  // not longer than half of it
  EXPECT_EQ(narrow, (std::vector<float>{2, 9, 1}));
  EXPECT_NE(test::message_of([&] { median_filter(narrow, 4); }).find("odd"), std::string::npos);
}

TEST(WhisperAlignment, TheCheapestWayIsFollowed) {
  // What is not on the way costs 1, what is on it nothing.
  const std::vector<double> costs{0, 0, 1, 1, 1,  //
                                  1, 1, 0, 1, 1,  //
                                  1, 1, 1, 0, 0};
  EXPECT_EQ(warped_columns(costs, 3, 5), (std::vector<int64_t>{0, 2, 3}));
  EXPECT_EQ(warped_columns({0, 0, 0, 0}, 4, 1), (std::vector<int64_t>{0, 0, 0, 0}));
  EXPECT_EQ(warped_columns({0, 0, 0}, 1, 3), (std::vector<int64_t>{0}));
}

TEST(WhisperAlignment, TokensAreWhereTheirHeadsLook) {
  constexpr int64_t kFrames = 20;
  std::vector<HeadAttention> heads(2, HeadAttention(3 * kFrames, 0.01f));
  for (HeadAttention& head : heads)
    for (int64_t token = 0; token < 3; ++token)
      for (int64_t frame = 6 * token; frame < 6 * token + 6; ++frame)
        head[static_cast<size_t>(token * kFrames + frame)] = 0.5f;
  EXPECT_EQ(token_frames(heads, 3, kFrames, 3), (std::vector<int64_t>{0, 6, 12}));
  EXPECT_EQ(token_frames({}, 2, 0, 7), (std::vector<int64_t>{0, 0}));
}

TEST(WhisperAttempts, RepeatedTokensAreSmallerDeflated) {
  TokenIds same(60, 7), others;
  for (int64_t i = 0; i < 60; ++i) others.push_back(i * 37 % 211);
  EXPECT_GT(token_compression_ratio(same, 422), 4);
  EXPECT_LT(token_compression_ratio(others, 422), 1.3);
  // Two bytes a token from 256 tokens on: 120 bytes of zeros.
  EXPECT_GT(token_compression_ratio(same, 51865), token_compression_ratio(same, 200) * 1.2);
}

}  // namespace
}  // namespace transom
