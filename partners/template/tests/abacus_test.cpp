// SPDX-License-Identifier: Apache-2.0
// The device by the public interface and the program: its numbers, its arguments, a model that it trains.
#include <gtest/gtest.h>

#include "testing/message.h"
#include "testing/ranks.h"
#include "testing/temporary_folder.h"
#include "transom/ops.h"
#include "transom/training_arguments.h"

namespace transom {
namespace {

using namespace test;

TEST(Abacus, ComputesWhatItCanAndTheHostTheRest) {
  set_device("abacus");
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3}, {3}), y = Tensor::from(std::vector<float>{4, 5, 6}, {3});
  EXPECT_EQ((x * y - x + y).to_vector<float>(), (std::vector<float>{7, 13, 21}));
  EXPECT_EQ(sum(x * y).item<float>(), 32);
}

TEST(Abacus, HasArgumentsOfItsOwn) {
  EXPECT_EQ(parse_train_arguments({"--use_abacus"}).script.device, "abacus");
  EXPECT_EQ(parse_train_arguments({"--use_abacus", "false"}).device_but, "abacus");
  EXPECT_NE(train_help().find("--use_abacus"), std::string::npos);
  EXPECT_NE(message_of([] {
              parse_train_arguments({"--use_abacus", "--device", "cpu"});
            }).find("expected abacus"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              parse_train_arguments({"--abacus_rods", "17"});
            }).find("there is one size"),
            std::string::npos);
  EXPECT_NE(message_of([] { set_device("beads"); }).find("Abacus is 'abacus'"), std::string::npos);
}

TEST(Abacus, TrainsToTheWeightsOfTheProcessor) {
  const TemporaryFolder folder;
  save_model_and_rows(folder, 16);
  const auto curve = [&](const char* device) {
    const Outcome outcome = Program(training_words(folder, device, device, 4, {"--max_steps", "2"}), folder).wait();
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    return outcome.output;
  };
  expect_same_curve(curve("abacus"), curve("cpu"), 1e-5);
}

}  // namespace
}  // namespace transom
