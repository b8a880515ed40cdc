// SPDX-License-Identifier: Apache-2.0
// Arguments that change how a run is carried out and measured, and none of its other numbers.
#include <gtest/gtest.h>

#include <optional>

#include "transom/device.h"
#include "transom/error.h"
#include "transom/fine_tuning.h"
#include "work/train/tiny_model.h"

namespace transom {
namespace {

std::optional<double> metric_of(const Metrics& metrics, const std::string& name) {
  for (const auto& [key, value] : metrics)
    if (key == name) return value;
  return std::nullopt;
}

FineTuneResult run_with(const std::vector<std::string>& more) {
  set_device("cpu");
  const TinyModel model;
  std::vector<std::string> flags{
      "--task",
      "text-classification",
      "--train_file",
      model.write("train.csv", "text,label\nann went,a\nthe tower,b\nrome is old,a\nold,b\n"),
      "--validation_file",
      model.write("valid.csv", "text,label\nann,a\nthe tower is old,b\nwho,a\n"),
      "--do_eval",
      "--max_steps",
      "3",
      "--per_device_train_batch_size",
      "4",
      "--per_device_eval_batch_size",
      "2",
      "--learning_rate",
      "0.01",
      "--save_strategy",
      "no"};
  flags.insert(flags.end(), more.begin(), more.end());
  return fine_tune(model.arguments(flags));
}

TEST(Throughput, LeavesTheFirstStepsOutOfTheRates) {
  const FineTuneResult plain = run_with({}), warm = run_with({"--throughput_warmup_steps", "2", "--adjust_throughput"});
  const double steps = *metric_of(warm.train, "train_steps_per_second");
  EXPECT_GT(steps, 0);
  EXPECT_NEAR(*metric_of(warm.train, "train_samples_per_second"), 4 * steps, 0.01 * (1 + 4 * steps));
  EXPECT_EQ(metric_of(warm.train, "train_loss"), metric_of(plain.train, "train_loss"));
  EXPECT_THROW(parse_train_arguments({"--throughput_warmup_steps", "-1"}), Error);
}

TEST(InferenceMode, GivesTheNumbersOfTheUsualOne) {
  const std::optional<double> expected = metric_of(run_with({}).evaluation, "eval_loss");
  ASSERT_TRUE(expected);
  for (const char* mode : {"eager", "compile", "graph"})
    EXPECT_EQ(metric_of(run_with({"--inference_mode", mode}).evaluation, "eval_loss"), expected) << mode;
  EXPECT_THROW(parse_train_arguments({"--inference_mode", "fast"}), Error);
}

}  // namespace
}  // namespace transom
