// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/text/text_lists.h"
#include "support/message.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

using Words = std::vector<std::string>;

TEST(TextLists, OfPythonJsonAndWords) {
  EXPECT_EQ(list_of_text("['a', \"it's\", 'it\\'s', '']", ""), (Words{"a", "it's", "it's", ""}));
  EXPECT_EQ(list_of_text("[\"a, b\", 3]", ""), (Words{"a, b", "3"}));
  EXPECT_EQ(list_of_text("['a' 'b'\n 'c']", ""), (Words{"a", "b", "c"}));
  EXPECT_EQ(list_of_text(" two  words\t", ""), (Words{"two", "words"}));
  EXPECT_EQ(list_of_text("[ 5 ]", ""), (Words{"[", "5", "]"}));
  EXPECT_EQ(list_of_text("[]", ""), Words());
  EXPECT_EQ(list_of_text("", ""), Words());
}

TEST(TextLists, RefusesOneThatDoesNotEnd) {
  EXPECT_EQ(test::message_without_folders([] { list_of_text("['a]", "/x.csv: row 3"); }),
            "x.csv: row 3: expected a list of words, found one that does not end: '['a]'");
}

}  // namespace
}  // namespace transom
