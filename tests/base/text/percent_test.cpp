// SPDX-License-Identifier: Apache-2.0
#include "base/text/percent.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

TEST(Percent, DecodesEscapes) {
  EXPECT_EQ(percent_decoded("/a%2Fb%20c%e4"), "/a/b c\xe4");
  EXPECT_EQ(percent_decoded("%00"), std::string(1, '\0'));
  EXPECT_EQ(percent_decoded(""), "");
  EXPECT_EQ(percent_decoded("%2541"), "%41");  // once
}

TEST(Percent, BrokenEscapesAreRefusedOrKept) {
  for (const char* text : {"%", "a%4", "%g0", "%0g", "% 41"}) {
    EXPECT_FALSE(percent_decoded(text)) << text;
    EXPECT_EQ(percent_decoded(text, BrokenEscapes::kKept), text);
  }
  EXPECT_EQ(percent_decoded("50%%20%2", BrokenEscapes::kKept), "50% %2");
}

}  // namespace
}  // namespace transom
