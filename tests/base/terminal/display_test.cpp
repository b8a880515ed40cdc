// SPDX-License-Identifier: Apache-2.0
#include "base/terminal/display.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

TEST(Display, ShortensTheMiddleOfWhatIsTooLong) {
  EXPECT_EQ(shortened("fusion(add mul)", 15), "fusion(add mul)");
  EXPECT_EQ(shortened("fusion(add mul neg)", 15), "fusion...l neg)");
  EXPECT_EQ(shortened("fusion(add mul neg)", 14), "fusion... neg)");
}

TEST(Display, EscapesMarkup) { EXPECT_EQ(escaped("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;"); }

}  // namespace
}  // namespace transom
