// SPDX-License-Identifier: Apache-2.0
// Losses of updates on the host's device, and on one that works in the background.
#include "work/train/log/loss_log.h"
#include "support/folders.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "transom/device.h"

namespace transom {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class LossLogs : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    setenv("TRANSOM_PLUGIN_PATH", (test::build_folder() + "/partial_plugins").c_str(), 1);
    set_device(GetParam());
    log_.begin(10, [this](const StepReport& step) { not_finite_.push_back(step.step); }, {});
  }
  void TearDown() override { set_device("cpu"); }
  void add(int64_t step, float loss, float norm = 1) {
    log_.add({Tensor::scalar(loss), Tensor::scalar(norm)}, step, 0.1);
  }
  bool is_read_at_once() const { return GetParam() == "cpu"; }
  LossLog log_;
  std::vector<int64_t> not_finite_;
};

TEST_P(LossLogs, StayOnTheDeviceUntilTheyAreNeeded) {
  for (int step = 1; step <= 3; ++step) add(10 + step, static_cast<float>(step), 2 * static_cast<float>(step));
  EXPECT_EQ(log_.waiting(), is_read_at_once() ? 0u : 3u);
  log_.read();
  EXPECT_EQ(log_.waiting(), 0u);
  EXPECT_EQ(log_.mean_loss(13), 2);
  EXPECT_EQ(log_.last_norm(), 6);
  log_.next_record(13);
  EXPECT_FALSE(log_.mean_loss(13));
  add(14, 5);
  log_.read();
  EXPECT_EQ(log_.mean_loss(14), 5);
  EXPECT_EQ(log_.total(), 11);
}

// Trainer's filter: what is no number counts as the mean so far, wherever it is read.
TEST_P(LossLogs, NameTheUpdateThatGaveNoNumber) {
  add(11, 4);
  add(12, kNaN);
  add(13, 3, kNaN);
  log_.read();
  EXPECT_EQ(not_finite_, (std::vector<int64_t>{12, 13}));
  EXPECT_EQ(log_.mean_loss(13), (4.0 + 2.0 + 3.0) / 3);
  EXPECT_TRUE(std::isnan(log_.last_norm()));
}

TEST_P(LossLogs, AreNotKeptWithoutEnd) {
  for (int step = 1; step <= 500; ++step) {
    add(10 + step, 1);
    ASSERT_LE(log_.waiting(), 64u);
  }
  log_.read();
  EXPECT_EQ(log_.total(), 500);
}

TEST_P(LossLogs, AreReadAtOnceForReports) {
  std::vector<StepReport> reports;
  log_.begin(0, {}, [&](const StepReport& step) { reports.push_back(step); });
  add(1, 7, 3);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].step, 1);
  EXPECT_EQ(reports[0].loss, 7);
  EXPECT_EQ(reports[0].gradient_norm, 3);
  EXPECT_EQ(reports[0].learning_rate, 0.1);
}

INSTANTIATE_TEST_SUITE_P(Devices, LossLogs, testing::Values("cpu", "distant"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace transom
