// SPDX-License-Identifier: Apache-2.0
// Training of modules that users write.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "support/message.h"
#include "transom/error.h"
#include "transom/interrupt.h"
#include "transom/layers.h"
#include "transom/losses.h"
#include "transom/optim.h"
#include "transom/parameters.h"

namespace transom {
namespace {

Tensor floats(const std::vector<float>& values, Shape shape) { return Tensor::from(values, std::move(shape)); }

std::shared_ptr<Parameter> parameter(const std::string& name, const std::vector<float>& values) {
  auto result = std::make_shared<Parameter>(Parameter{name, floats(values, {static_cast<int64_t>(values.size())})});
  result->value.set_requires_grad();
  return result;
}

// Beside torch.optim.AdamW's formula in double precision, on the loss sum(w w c).
TEST(Minimize, TakesTheStepsOfAdamW) {
  const std::vector<double> c{0.5, -1, 2};
  std::vector<double> w{1, -2, 0.5}, m(3, 0), v(3, 0);
  const auto trained = parameter("w", {1, -2, 0.5});
  const auto adamw = make_optimizer({.weight_decay = 0.1});
  for (int step = 1; step <= 5; ++step) {
    const double rate = 0.01 * step;
    double expected = 0;
    for (size_t i = 0; i < 3; ++i) expected += w[i] * w[i] * c[i];
    const Tensor loss = minimize(
        [&](ForwardContext& context) {
          EXPECT_TRUE(context.training);
          return sum(trained->value * trained->value * floats({0.5, -1, 2}, {3}));
        },
        {trained}, *adamw, {.learning_rate = rate});
    EXPECT_NEAR(loss.item<float>(), expected, 1e-5);
    for (size_t i = 0; i < 3; ++i) {
      const double g = 2 * w[i] * c[i];
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;
      w[i] -= rate * 0.1 * w[i];
      w[i] -= rate * (m[i] / (1 - std::pow(0.9, step))) / (std::sqrt(v[i] / (1 - std::pow(0.999, step))) + 1e-8);
      EXPECT_NEAR(trained->value.to_vector<float>()[i], w[i], 2e-6) << step;
    }
  }
  EXPECT_EQ(adamw->steps(), 5);
  EXPECT_TRUE(trained->value.requires_grad());
}

TEST(Minimize, ClipsDecaysAndSparesAsItIsTold) {
  const auto a = parameter("a", {3}), b = parameter("b", {4}), fixed = parameter("c", {5});
  fixed->value.set_requires_grad(false);
  const auto sgd = make_optimizer({.name = "sgd", .weight_decay = 0.5});
  const auto loss = [&](ForwardContext&) { return sum(a->value * 3.0 + b->value * 4.0) * fixed->value; };  // [1]
  const Tensor value = minimize(loss, {a, b, fixed}, *sgd,
                                {.learning_rate = 1, .max_grad_norm = 5, .decays = [](const Parameter& parameter) {
                                   return parameter.name == "a";
                                 }});
  EXPECT_EQ(value.shape(), Shape{});
  EXPECT_EQ(value.item<float>(), 125.0F);
  EXPECT_NEAR(a->value.item<float>(), 3 - 3 - 0.5 * 3, 1e-5);
  EXPECT_NEAR(b->value.item<float>(), 4 - 4, 1e-5);
  EXPECT_EQ(fixed->value.item<float>(), 5.0F);
}

TEST(Minimize, DrawsDropoutByItsSeedAndStep) {
  const auto masks = [](uint64_t seed) {
    const auto w = parameter("w", std::vector<float>(64, 1.0F));
    const auto sgd = make_optimizer({.name = "sgd"});
    std::vector<float> losses;
    for (int step = 0; step < 3; ++step)
      losses.push_back(minimize([&](ForwardContext& context) { return sum(Dropout(0.5)(w->value, context)); }, {w},
                                *sgd, {.learning_rate = 0, .seed = seed})
                           .item<float>());
    return losses;
  };
  EXPECT_EQ(masks(1), masks(1));
  EXPECT_NE(masks(1), masks(2));
  EXPECT_FALSE(masks(1)[0] == masks(1)[1] && masks(1)[1] == masks(1)[2]);
}

TEST(Minimize, KeepsTheStatisticsOfBatchNorms) {
  ParameterSet parameters;
  const BatchNorm norm(parameters, 2);
  const Tensor x = floats({1, 2, 3, 4, 10, 20, 30, 40}, {2, 2, 2});
  const auto sgd = make_optimizer({.name = "sgd"});
  minimize([&](ForwardContext& context) { return sum(norm(x, context)); }, parameters.all(), *sgd);
  const std::vector<float> means = parameters.buffers()[0]->value.to_vector<float>();
  EXPECT_NEAR(means[0], 0.1 * (1 + 2 + 10 + 20) / 4, 1e-5);
  EXPECT_NEAR(means[1], 0.1 * (3 + 4 + 30 + 40) / 4, 1e-5);
  EXPECT_EQ(parameters.buffers()[2]->value.item<int64_t>(), 1);
}

// ---- what fails changes nothing

class FailedStep : public testing::Test {
 protected:
  FailedStep() : w_(parameter("w", {1, 2})), adamw_(make_optimizer({})) { step(); }
  Tensor loss() const { return sum(w_->value * w_->value); }
  float step() {
    return minimize([&](ForwardContext&) { return loss(); }, {w_}, *adamw_, {.learning_rate = 0.1}).item<float>();
  }
  // After `failure`, the next step is what it would have been.
  void expect_nothing_changed(const std::function<void()>& failure) {
    const std::vector<float> before = w_->value.to_vector<float>();
    EXPECT_THROW(failure(), Error);
    EXPECT_EQ(w_->value.to_vector<float>(), before);
    EXPECT_EQ(adamw_->steps(), 1);
    EXPECT_TRUE(w_->value.requires_grad());
    step();
    FailedStep other;
    other.step();
    EXPECT_EQ(w_->value.to_vector<float>(), other.w_->value.to_vector<float>());
  }
  void TestBody() override {}

  std::shared_ptr<Parameter> w_;
  std::unique_ptr<Optimizer> adamw_;
};

TEST_F(FailedStep, OfAWrongLoss) {
  expect_nothing_changed([&] { minimize([&](ForwardContext&) { return w_->value; }, {w_}, *adamw_); });
}
TEST_F(FailedStep, OfALossThatThrows) {
  expect_nothing_changed(
      [&] { minimize([&](ForwardContext&) -> Tensor { throw Error(ErrorKind::kInput, "no data"); }, {w_}, *adamw_); });
}
TEST_F(FailedStep, OfAStepThatIsInterrupted) {
  expect_nothing_changed([&] {
    std::stop_source source;
    const InterruptScope scope(source.get_token());
    minimize(
        [&](ForwardContext&) {
          source.request_stop();
          return loss();
        },
        {w_}, *adamw_, {.learning_rate = 0.1});
  });
}
TEST_F(FailedStep, OfOtherParametersThanBefore) {
  const auto other = parameter("v", {1, 2});
  expect_nothing_changed([&] {
    const std::string message =
        test::message_of([&] { minimize([&](ForwardContext&) { return sum(other->value); }, {other}, *adamw_); });
    EXPECT_NE(message.find("exp_avg.v"), std::string::npos) << message;
    minimize([&](ForwardContext&) { return loss() + sum(other->value); }, {w_, other}, *adamw_);
  });
}

TEST(Minimize, NeedsParametersToTrain) {
  const auto sgd = make_optimizer({.name = "sgd"});
  EXPECT_THROW(minimize([](ForwardContext&) { return constant(1); }, {}, *sgd), Error);
}

// A tensor that the caller took of a parameter keeps its value, and two trainings on two threads do not meet.
TEST(Minimize, LeavesWhatOthersHold) {
  const auto train = [](float first) {
    const auto w = parameter("w", {first, 2});
    const auto sgd = make_optimizer({.name = "sgd"});
    for (int step = 0; step < 50; ++step) {
      const Tensor held = w->value.detach();
      const std::vector<float> before = held.to_vector<float>();
      minimize([&](ForwardContext&) { return sum(w->value * w->value); }, {w}, *sgd, {.learning_rate = 0.01});
      EXPECT_EQ(held.to_vector<float>(), before);
    }
    return w->value.to_vector<float>();
  };
  const std::vector<float> one = train(1), other = train(-3);
  std::vector<float> beside;
  std::thread thread([&] { beside = train(-3); });
  EXPECT_EQ(train(1), one);
  thread.join();
  EXPECT_EQ(beside, other);
}

}  // namespace
}  // namespace transom
