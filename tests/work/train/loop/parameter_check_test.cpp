// SPDX-License-Identifier: Apache-2.0
#include "work/train/loop/parameter_check.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

TEST(ParameterCheck, NamesThePartAndTheRanksThatDiffer) {
  EXPECT_FALSE(find_different_copies({}));
  EXPECT_FALSE(find_different_copies({{{"a", 1}, {"b", 2}}, {{"a", 1}, {"b", 2}}}));
  // Parts that one process alone has are compared with nothing.
  EXPECT_FALSE(find_different_copies({{{"a (part 0)", 1}}, {{"a (part 1)", 2}}}));
  EXPECT_EQ(find_different_copies({{{"a", 1}, {"b", 2}}, {{"a", 1}, {"b", 3}}, {{"a", 1}, {"b", 2}}}),
            "b: rank 1 differs from most others");
  EXPECT_EQ(find_different_copies({{{"a", 1}}, {{"a", 4}}, {{"a", 1}}, {{"a", 5}}, {{"a", 1}}}),
            "a: ranks 1, 3 differ from most others");
  EXPECT_EQ(find_different_copies({{{"a", 1}}, {{"a", 4}}}), "a: ranks 0, 1 have different values");
}

}  // namespace
}  // namespace transom
