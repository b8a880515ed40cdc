// SPDX-License-Identifier: Apache-2.0
#include "work/train/metrics/error_rates.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace transom {
namespace {

TEST(ErrorRates, CountWordsOfAllRows) {
  const std::vector<std::string> said = {"the cat sat", "yes"}, heard = {"the hat sat down", "yes"};
  EXPECT_DOUBLE_EQ(word_error_rate(said, heard), 2.0 / 4);  // one other, one too many
  EXPECT_DOUBLE_EQ(word_error_rate(said, said), 0);
  const std::vector<std::string> nothing = {"", ""};
  EXPECT_DOUBLE_EQ(word_error_rate(said, nothing), 1);
}

TEST(ErrorRates, SpacesAtTheEndsDoNotCount) {
  const std::vector<std::string> said = {" one  two "}, heard = {"one two"};
  EXPECT_DOUBLE_EQ(word_error_rate(said, heard), 0);
}

TEST(ErrorRates, CharactersAreThoseOfUnicode) {
  const std::vector<std::string> said = {"grün"}, heard = {"grun"};
  EXPECT_DOUBLE_EQ(character_error_rate(said, heard), 0.25);
}

TEST(ErrorRates, NoWordsAreToldApartFromNoErrors) {
  const std::vector<std::string> nothing = {""}, heard = {"one"};
  EXPECT_DOUBLE_EQ(word_error_rate(nothing, nothing), 0);
  EXPECT_TRUE(std::isinf(word_error_rate(nothing, heard)));
}

}  // namespace
}  // namespace transom
