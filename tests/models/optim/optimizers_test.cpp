// SPDX-License-Identifier: Apache-2.0
// Three updates by each optimizer, beside those of torch.optim (Lion: of its paper's algorithm).
#include "models/optim/optimizer.h"

#include <gtest/gtest.h>

#include "transom/error.h"

namespace transom {
namespace {

std::vector<float> after_three_steps(const OptimizerOptions& options, double learning_rate) {
  const auto optimizer = make_optimizer(options);
  OptimizedParameter parameter{"w", Tensor::from(std::vector<float>{1.0F, -2.0F, 0.5F}, {3}), true};
  for (int step = 1; step <= 3; ++step) {
    const auto times = static_cast<float>(step);
    const std::vector<float> gradient = {0.5F * times, -1.0F * times, 2.0F * times - (step == 2 ? 5.0F : 0.0F)};
    parameter.value = optimizer->step({parameter}, {Tensor::from(gradient, {3})}, learning_rate)[0];
  }
  return parameter.value.to_vector<float>();
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(found[i], expected[i], 2e-6) << i;
}

TEST(Optimizers, SgdHasMomentumDampeningAndNesterov) {
  expect_near(after_three_steps({.name = "sgd", .settings = "momentum=0.8,dampening=0.3"}, 0.1),
              {0.647F, -1.294F, -0.282F});
  expect_near(after_three_steps({.name = "sgd", .weight_decay = 0.1, .settings = "momentum=0.9,nesterov=true"}, 0.1),
              {0.2016686F, -0.4033372F, -1.079504F});
  EXPECT_THROW(make_optimizer({.name = "sgd", .settings = "nesterov=true"}), Error);
}

TEST(Optimizers, AdagradDecaysItsLearningRate) {
  expect_near(after_three_steps({.name = "adagrad", .settings = "lr_decay=0.5,eps=1e-6"}, 0.1),
              {0.8002826F, -1.800282F, 0.3829622F});
}

TEST(Optimizers, RmsPropMayBeCentered) {
  expect_near(after_three_steps({.name = "rmsprop"}, 0.01), {0.7301173F, -1.730117F, 0.3510945F});
  expect_near(
      after_three_steps(
          {.name = "rmsprop", .weight_decay = 0.1, .settings = "alpha=0.9,eps=1e-6,momentum=0.5,centered=true"}, 0.01),
      {0.8660862F, -1.866062F, 0.430897F});
}

TEST(Optimizers, LionFollowsTheSign) {
  expect_near(after_three_steps({.name = "lion_32bit", .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.99}, 0.01),
              {0.9670331F, -1.964036F, 0.4885115F});
}

TEST(Optimizers, SettingsMayHaveSpaces) {
  EXPECT_EQ(after_three_steps({.name = "sgd", .settings = "momentum=0.9, nesterov = yes"}, 0.1),
            after_three_steps({.name = "sgd", .settings = "momentum=0.9,nesterov=true"}, 0.1));
}

// Their settings are arguments of Trainer, which gives them nothing else.
TEST(Optimizers, AdamWAdafactorAndLionTakeNoSettings) {
  for (const char* name : {"adamw_torch", "adafactor", "lion_32bit"})
    EXPECT_EQ(after_three_steps({.name = name, .settings = "eps=0.5"}, 0.1), after_three_steps({.name = name}, 0.1))
        << name;
}

TEST(Optimizers, UnknownSettingsAreRefused) {
  EXPECT_THROW(make_optimizer({.name = "rmsprop", .settings = "beta=1"}), Error);
  EXPECT_THROW(make_optimizer({.name = "adam_of_mine"}), Error);
}

}  // namespace
}  // namespace transom
