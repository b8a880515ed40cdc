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
  EXPECT_EQ(nearest("GELU", names), &names[2]);
}

TEST(Nearest, WordsThatAgreeSayMoreThanLetters) {
  const std::vector<std::string> names{"--block_size",       "--per_device_train_batch_size",
                                       "--num_train_epochs", "--lr_scheduler_type",
                                       "--output_dir",       "--eval_steps",
                                       "--eval_strategy"};
  EXPECT_EQ(nearest("--batch_size", names), &names[1]);
  EXPECT_EQ(nearest("--epochs", names), &names[2]);
  EXPECT_EQ(nearest("--lr", names), nullptr);
  EXPECT_EQ(nearest("--output", names), &names[4]);
  EXPECT_EQ(nearest("--eval", names), nullptr);  // of two it may be either
  EXPECT_EQ(nearest("--blok_size", names), &names[0]);
}

}  // namespace
}  // namespace transom
