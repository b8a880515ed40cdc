// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/porter_stemmer.h"

#include <gtest/gtest.h>

#include <utility>

namespace transom {
namespace {

TEST(PorterStemmer, GivesTheStemsOfNltk) {
  const std::pair<const char*, const char*> kCases[] = {
      {"caresses", "caress"},    {"ties", "tie"},        {"ponies", "poni"},
      {"feed", "feed"},          {"agreed", "agre"},     {"plastered", "plaster"},
      {"sing", "sing"},          {"hopping", "hop"},     {"falling", "fall"},
      {"filing", "file"},        {"happy", "happi"},     {"enjoy", "enjoy"},
      {"rational", "ration"},    {"radically", "radic"}, {"theology", "theolog"},
      {"apologies", "apolog"},   {"adoption", "adopt"},  {"controll", "control"},
      {"replacement", "replac"}, {"dying", "die"},       {"innings", "inning"},
      {"cease", "ceas"},         {"rate", "rate"},       {"is", "is"},
      {"yyyy", "yyyi"},          {"2nd", "2nd"}};
  for (const auto& [word, stem] : kCases) EXPECT_EQ(porter_stem(word), stem) << word;
}

}  // namespace
}  // namespace transom
