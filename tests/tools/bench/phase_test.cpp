// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/phase.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

// Expected values from numpy.percentile, numpy.mean and numpy.std.
TEST(Latency, IsThatOfNumpy) {
  const Latency l = latency_of({3, 1, 2, 10});
  EXPECT_DOUBLE_EQ(l.total, 16);
  EXPECT_DOUBLE_EQ(l.mean, 4);
  EXPECT_DOUBLE_EQ(l.p50, 2.5);
  EXPECT_DOUBLE_EQ(l.p90, 7.9);
  EXPECT_DOUBLE_EQ(l.p95, 8.95);
  EXPECT_NEAR(l.p99, 9.79, 1e-12);
  EXPECT_NEAR(l.stdev, 3.5355339059327378, 1e-15);
  EXPECT_NEAR(l.stdev_percent, 88.388347648318444, 1e-12);
}

TEST(Latency, OfOneValueHasNoDeviation) {
  const Latency l = latency_of({2});
  EXPECT_EQ(l.p50, 2);
  EXPECT_EQ(l.p99, 2);
  EXPECT_EQ(l.stdev, 0);
  EXPECT_EQ(latency_of({}).mean, 0);
}

TEST(Phase, ThroughputIsSamplesOverTheMean) {
  EXPECT_EQ((Phase{"forward", {1, 3}, 8, 0}).throughput(), 4);
  EXPECT_EQ((Phase{"load_model", {1, 3}, 0, 0}).throughput(), 0);
}

TEST(PeakMemory, SeesWhatWasTouched) {
  const PeakMemory memory;
  const double before = memory.megabytes();
  ASSERT_GT(before, 0);
  const std::vector<char> block(size_t{64} << 20, 1);
  EXPECT_GT(memory.megabytes(), before + 60) << block[1];
}

TEST(Phase, TheProcessStartedBeforeNowAndNotLongAgo) {
  EXPECT_GE(seconds_since_process_start(), 0);
  EXPECT_LT(seconds_since_process_start(), 3600);
}

}  // namespace
}  // namespace transom
