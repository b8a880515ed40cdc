// SPDX-License-Identifier: Apache-2.0
#include "apps/dashboard/monitor/series.h"

#include <gtest/gtest.h>

#include <cmath>

#include "apps/dashboard/monitor/log_series.h"
#include "apps/dashboard/monitor/run_monitor.h"

namespace transom::dashboard {
namespace {

TEST(Series, IsBoundedAndKeepsTheFirstAndTheNewestPoint) {
  for (const int64_t steps : {1, 15, 16, 17, 31, 32, 33, 1000, 100'003}) {
    Series series("loss", 16);
    for (int64_t step = 1; step <= steps; ++step) {
      series.add(step, static_cast<double>(step), static_cast<uint64_t>(step));
      ASSERT_LE(series.points().size(), 16u);
    }
    ASSERT_FALSE(series.points().empty());
    EXPECT_EQ(series.points().front().step, 1);
    // A halving may drop the newest until the next one comes.
    EXPECT_GE(series.points().back().step, steps - 1) << steps;
    for (size_t i = 1; i < series.points().size(); ++i) {
      EXPECT_LT(series.points()[i - 1].step, series.points()[i].step);
      EXPECT_LT(series.points()[i - 1].number, series.points()[i].number);
    }
    if (steps >= 1000) {
      EXPECT_GE(series.points().size(), 8u);
    }
  }
}

TEST(Series, TakesNoNanAndReplacesAStep) {
  Series series("loss");
  series.add(1, std::nan(""), 1);
  series.add(1, INFINITY, 2);
  EXPECT_TRUE(series.points().empty());
  series.add(1, 2.0, 3);
  series.add(1, 4.0, 4);
  ASSERT_EQ(series.points().size(), 1u);
  EXPECT_EQ(series.points()[0].value, 4.0);
}

TEST(SeriesOfLog, LeavesOutTimesAndTotals) {
  const std::vector<LogRecord> log = {
      {{"loss", 2.5}, {"learning_rate", 1e-4}, {"epoch", 0.5}, {"step", int64_t{3}}},
      {{"eval_loss", 2.0}, {"eval_runtime", 0.1}, {"eval_samples_per_second", 9.0}, {"step", int64_t{3}}},
      {{"train_loss", 2.2}, {"train_runtime", 1.0}, {"step", int64_t{6}}},
      {{"loss", 1.0}}};  // says no step
  const std::vector<Series> series = series_of_log(log);
  ASSERT_EQ(series.size(), 3u);
  EXPECT_EQ(series[0].name(), "loss");
  ASSERT_EQ(series[0].points().size(), 1u);
  EXPECT_EQ(series[0].points()[0].step, 3);
  EXPECT_EQ(series[1].name(), "learning_rate");
  EXPECT_EQ(series[2].name(), "eval_loss");
}

TEST(RunMonitor, TwoReadersGetEachPointOnce) {
  RunMonitor monitor;
  uint64_t first = 0, second = 0;
  std::vector<int64_t> of_first, of_second;
  const auto read = [&](uint64_t& number, std::vector<int64_t>& steps) {
    const RunView view = monitor.view(number);
    number = view.number;
    for (const Series& series : view.series)
      for (const Point& point : series.points()) steps.push_back(point.step);
  };
  read(first, of_first);
  for (int64_t step = 1; step <= 100; ++step) {
    monitor.add("loss", step, 1.0);
    if (step % 7 == 0) read(first, of_first);
    if (step % 30 == 0) read(second, of_second);
  }
  read(first, of_first);
  read(second, of_second);
  std::vector<int64_t> all(100);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i) + 1;
  EXPECT_EQ(of_first, all);
  EXPECT_EQ(of_second, all);
  EXPECT_TRUE(monitor.view(first).series.empty());
}

TEST(RunMonitor, BoundsSeriesAndMessages) {
  RunMonitor monitor;
  for (int i = 0; i < 1000; ++i) {
    monitor.add("metric " + std::to_string(i), 1, 1.0);
    monitor.say("message " + std::to_string(i));
  }
  const RunView view = monitor.view();
  EXPECT_EQ(view.series.size(), 64u);
  EXPECT_EQ(view.messages.size(), 200u);
  EXPECT_EQ(view.messages.back().text, "message 999");
}

TEST(RunMonitor, SaysHowLongIsLeft) {
  RunMonitor monitor;
  EXPECT_FALSE(monitor.view().status.seconds_left);
  monitor.begin(10, 20);
  EXPECT_FALSE(monitor.view().status.seconds_left);  // no update yet
  monitor.set_step(15, 1.5);
  const RunStatus status = monitor.view().status;
  ASSERT_TRUE(status.seconds_left);
  EXPECT_NEAR(*status.seconds_left * status.steps_per_second, 5, 1e-9);
  monitor.end(Phase::kFinished);
  EXPECT_FALSE(monitor.view().status.seconds_left);
  EXPECT_EQ(monitor.view().status.seconds, monitor.view().status.seconds);  // stands still
}

}  // namespace
}  // namespace transom::dashboard
