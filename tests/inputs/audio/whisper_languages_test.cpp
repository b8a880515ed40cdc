// SPDX-License-Identifier: Apache-2.0
#include "inputs/audio/whisper_languages.h"

#include <gtest/gtest.h>

#include "transom/error.h"

namespace transom {
namespace {

TEST(WhisperLanguages, HaveOneTokenByNameAndCode) {
  EXPECT_EQ(whisper_language_mark("de"), "<|de|>");
  EXPECT_EQ(whisper_language_mark("GERMAN"), "<|de|>");
  EXPECT_EQ(whisper_language_mark("Haitian Creole"), "<|ht|>");
  EXPECT_EQ(whisper_language_mark("klingon"), "");
}

// Ids that are no token of the model do not count; of equal scores the lowest id is heard, as argmax has it.
TEST(WhisperLanguages, AreHeardRowByRow) {
  const std::vector<float> scores{9, 1, 2, 0, 9, 5, 5, 0};
  EXPECT_EQ(likeliest_languages(scores, 2, {2, 1, 70, -1}), (std::vector<int64_t>{2, 1}));
  EXPECT_THROW(likeliest_languages(scores, 2, {70}), Error);
}

}  // namespace
}  // namespace transom
