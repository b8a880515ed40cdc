// SPDX-License-Identifier: Apache-2.0
// An optimizer state in host memory: the bits of one on the device, and the memory of none.
#include <gtest/gtest.h>

#include "base/threads/interrupt.h"
#include "support/message.h"
#include "support/offloaded_update.h"
#include "transom/ops.h"

namespace transom {
namespace {

class OffloadedUpdate : public testing::Test {
 protected:
  void SetUp() override { set_device("cpu"); }
  void TearDown() override { set_mode(Mode::kLazy); }
};

TEST_F(OffloadedUpdate, HasTheBitsOfAStateOnTheDevice) { test::expect_same_bits_with_less_memory(); }

TEST_F(OffloadedUpdate, HasThemWithEveryOptimizerAndMode) {
  for (const char* name : {"adamw_torch", "sgd", "adagrad", "rmsprop", "adafactor", "lion_32bit"})
    for (const Mode mode : {Mode::kLazy, Mode::kGraph}) {
      set_mode(mode);
      TrainingArguments arguments;
      arguments.optim = name;
      if (arguments.optim == "sgd") arguments.optim_args = "momentum=0.9";
      const auto there = test::run_updates(arguments, false, 3, 2),
                 offloaded = test::run_updates(arguments, true, 3, 2);
      EXPECT_EQ(there.numbers, offloaded.numbers) << name;
      EXPECT_TRUE(there.weights == offloaded.weights) << name;
      EXPECT_TRUE(there.states == offloaded.states) << name;
    }
}

// Two askers: what one takes over is not the other's.
TEST_F(OffloadedUpdate, TakesOnlyMemoryThatItIsGiven) {
  const Tensor first = in_host_memory(Tensor::from(std::vector<float>{1, 2}, {2}));
  const Tensor second = in_host_memory(Tensor::from(std::vector<float>{3, 4}, {2}), first);
  EXPECT_EQ(second.to_vector<float>(), (std::vector<float>{3, 4}));
  EXPECT_NE(test::message_of([&] { first.to_bytes(); }).find("is lost"), std::string::npos);
  EXPECT_NE(test::message_of([&] { (first + 1.0).to_bytes(); }).find("is lost"), std::string::npos);
  const Tensor third = in_host_memory(Tensor::from(std::vector<float>{5, 6, 7}, {3}), first);
  EXPECT_EQ((third + 1.0).to_vector<float>(), (std::vector<float>{6, 7, 8}));
  // A program may take over its copy, not the values.
  EXPECT_EQ((third * 2.0).to_vector<float>(), (std::vector<float>{10, 12, 14}));
  EXPECT_EQ(third.to_vector<float>(), (std::vector<float>{5, 6, 7}));
}

}  // namespace
}  // namespace transom
