// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

TEST(DidYouMean, EndsTheSentenceEitherWay) {
  const std::vector<std::string> names{"relu", "gelu_new", "gelu"};
  EXPECT_EQ(did_you_mean("gelu_nwe", names), ", did you mean 'gelu_new'?");
  EXPECT_EQ(did_you_mean("sigmoid", names), ".");
  EXPECT_EQ(did_you_mean("relu", {}), ".");
}

TEST(Nearest, IsOneOfTheNames) {
  const std::vector<std::string> names{"relu", "gelu_new", "gelu"};
  EXPECT_EQ(nearest("relo", names), &names[0]);
  EXPECT_EQ(nearest("attention", names), nullptr);
}

}  // namespace
}  // namespace transom
