// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/attributes.h"

#include <gtest/gtest.h>

#include "transom/error.h"

namespace transom {
namespace {

TEST(Attributes, AreSortedByName) {
  Attributes attributes{{"b", int64_t{1}}, {"a", 2.5}};
  attributes.set("ab", std::vector<int64_t>{1, 2});
  EXPECT_EQ(to_string(attributes), "a=2.5, ab=[1, 2], b=1");
}

TEST(Attributes, LaterValuesReplaceEarlierOnes) {
  Attributes attributes{{"a", int64_t{1}}};
  attributes.set("a", std::string("text"));
  EXPECT_EQ(attributes.get_string("a"), "text");
  EXPECT_EQ(attributes.items().size(), 1u);
}

TEST(Attributes, RefuseMissingNamesAndOtherKinds) {
  const Attributes attributes{{"a", int64_t{1}}};
  EXPECT_THROW(attributes.get_int("b"), Error);
  EXPECT_THROW(attributes.get_float("a"), Error);
  EXPECT_EQ(attributes.get_int("b", 7), 7);
  EXPECT_EQ(attributes.get_int("a", 7), 1);
}

}  // namespace
}  // namespace transom
