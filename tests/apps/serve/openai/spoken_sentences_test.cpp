// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/openai/spoken_sentences.h"

#include <gtest/gtest.h>

namespace transom::serve {
namespace {

using Sentences = std::vector<std::string>;

TEST(SpokenSentences, EndWithTheirMarks) {
  EXPECT_EQ(spoken_sentences("Good morning. How are you?  \"I am fine!\" she said."),
            (Sentences{"Good morning.", "How are you?", "\"I am fine!\"", "she said."}));
  EXPECT_EQ(spoken_sentences("A heading here\n\nand a text\nof two lines"),
            (Sentences{"A heading here", "and a text\nof two lines"}));
  EXPECT_EQ(spoken_sentences("今日は良い天気です。行きましょう！"),
            (Sentences{"今日は良い天気です。", "行きましょう！"}));
  EXPECT_EQ(spoken_sentences("Well, no… but why?!... Because"), (Sentences{"Well, no…", "but why?!... Because"}));
}

TEST(SpokenSentences, GoOnBehindAbbreviationsAndNumbers) {
  for (const char* whole : {"Dr. Smith met J. Doe at 3.50 p.m. today", "1. First, open the door",
                            "No spaces.here are ends", "It costs $3.50 and no more"})
    EXPECT_EQ(spoken_sentences(whole), Sentences{whole});
}

TEST(SpokenSentences, AreNeverWithoutAnythingToSay) {
  EXPECT_EQ(spoken_sentences("Hi. Oh! What is this? ..."), (Sentences{"Hi. Oh! What is this? ..."}));
  EXPECT_EQ(spoken_sentences("... --- !!! ??? Hello there. Bye."), (Sentences{"... --- !!! ??? Hello there. Bye."}));
  EXPECT_EQ(spoken_sentences(" "), Sentences{""});
  EXPECT_EQ(spoken_sentences(std::string(1 << 16, '.')).size(), 1U);
}

}  // namespace
}  // namespace transom::serve
