// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/audio_chunks.h"

#include <gtest/gtest.h>

#include "transom/error.h"

namespace transom {
namespace {

Sound counting(int64_t samples) {
  Sound sound;
  sound.sampling_rate = 10;
  for (int64_t i = 0; i < samples; ++i) sound.samples.push_back(static_cast<float>(i));
  return sound;
}

TEST(SoundChunks, ShareWhatTheStridesSay) {
  const auto options = chunk_options({{"chunk_length_s", int64_t{4}}, {"stride_length_s", std::vector{1.0, 0.5}}});
  ASSERT_TRUE(options);
  const auto chunks = cut(counting(100), *options, 1);
  ASSERT_EQ(chunks.size(), 4U);  // 40 samples each, 25 further each time
  EXPECT_EQ(chunks[0].left, 0);
  EXPECT_EQ(chunks[0].right, 5);
  EXPECT_EQ(chunks[1].sound.samples.front(), 25);
  EXPECT_EQ(chunks[1].left, 10);
  EXPECT_EQ(chunks[3].right, 0);
  EXPECT_EQ(chunks[3].sound.samples.back(), 99);
}

TEST(SoundChunks, ShareASixthByDefault) {
  const auto options = chunk_options({{"chunk_length_s", int64_t{6}}});
  ASSERT_TRUE(options);
  EXPECT_DOUBLE_EQ(options->left, 1);
  EXPECT_DOUBLE_EQ(options->right, 1);
  EXPECT_EQ(cut(counting(30), *options, 1).size(), 1U);
  // Lengths are whole frames.
  EXPECT_EQ(cut(counting(1000), *options, 7)[0].sound.samples.size(), 63U);
}

TEST(SoundChunks, AreNotWantedOrRefused) {
  EXPECT_FALSE(chunk_options({}));
  EXPECT_FALSE(chunk_options({{"chunk_length_s", 0.0}}));
  EXPECT_FALSE(chunk_options({{"chunk_length_s", std::monostate()}}));
  EXPECT_THROW(chunk_options({{"chunk_length_s", "long"}}), Error);
  EXPECT_THROW(chunk_options({{"chunk_length_s", -1.0}}), Error);
  EXPECT_THROW(cut(counting(10), {2, 1, 1}, 1), Error);
}

}  // namespace
}  // namespace transom
