// SPDX-License-Identifier: Apache-2.0
#include "work/train/files/training_curve.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

LogRecord at(int64_t step, const std::string& name, double value) { return {{name, value}, {"step", step}}; }

TEST(TrainingCurve, DrawsLossesAndAMetric) {
  TrainerState state;
  state.global_step = 20;
  state.log_history = {at(10, "loss", 1.5),
                       {{"eval_loss", 1.25}, {"eval_runtime", 3.0}, {"step", int64_t{10}}},
                       at(10, "eval_accuracy", 0.5),
                       at(20, "loss", 0.5),
                       at(20, "eval_accuracy", 0.75)};
  const std::string svg = draw_training_curve(state);
  EXPECT_TRUE(svg.starts_with("<svg")) << svg;
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (const char* part : {">loss<", ">eval_loss<", ">eval_accuracy<", ">step<", ">0.5<", ">1.5<", ">20<"})
    EXPECT_NE(svg.find(part), std::string::npos) << part << "\n" << svg;
  EXPECT_EQ(svg.find("eval_runtime"), std::string::npos);
  // From the middle of the steps at the top of the axis down to the last step at a third of it.
  EXPECT_NE(svg.find("M360.0 40.0 L656.0 221.3"), std::string::npos) << svg;
}

TEST(TrainingCurve, DrawsTheRewardOfAPolicy) {
  TrainerState state;
  state.global_step = 2;
  for (const int64_t step : {1, 2})
    state.log_history.push_back({{"loss", 0.0}, {"reward", 0.25 * static_cast<double>(step)}, {"step", step}});
  state.log_history.push_back(at(2, "eval_reward", 0.75));
  const std::string svg = draw_training_curve(state);
  EXPECT_NE(svg.find(">reward<"), std::string::npos) << svg;
  EXPECT_NE(svg.find(">0.50<"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("eval_reward"), std::string::npos) << svg;
}

TEST(TrainingCurve, NeedsTwoLosses) {
  TrainerState state;
  EXPECT_EQ(draw_training_curve(state), "");
  state.log_history = {at(1, "loss", 2)};
  EXPECT_EQ(draw_training_curve(state), "");
}

TEST(TrainingCurve, LeavesOutWhatIsNoNumber) {
  TrainerState state;
  state.global_step = 3;
  state.log_history = {at(1, "loss", 2), at(2, "loss", std::numeric_limits<double>::quiet_NaN()), at(3, "loss", 2)};
  const std::string svg = draw_training_curve(state);
  EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
  EXPECT_NE(svg.find("<path d=\"M"), std::string::npos);
}

}  // namespace
}  // namespace transom
