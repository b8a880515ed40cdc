// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/machines/collectives.h"

#include <gtest/gtest.h>

#include "jobs.h"

namespace transom {
namespace {

TEST(Collectives, OneRankExchangesNothing) {
  const DeviceModel device = test::round_device();
  EXPECT_EQ(all_reduce_seconds(device, {1, 1}, 1e9), 0);
  EXPECT_EQ(all_gather_seconds(device, {1, 1}, 1e9), 0);
  EXPECT_EQ(all_to_all_seconds(device, {1, 1}, 1e9), 0);
}

TEST(Collectives, AllReduceMovesTwiceItsBytes) {
  DeviceModel device = test::round_device();
  device.fitted.link = 1, device.fitted.collective = 0, device.inside.latency = 0;
  EXPECT_NEAR(all_reduce_seconds(device, {8, 8}, 1e11), 2 * 7.0 / 8, 1e-9);
}

TEST(Collectives, TwoOfAMeshHaveTheirOwnWiresAlone) {
  DeviceModel device = test::round_device();
  device.inside = {"mesh", 7e10, 1e10, 0};
  device.fitted.link = 1, device.fitted.collective = 0;
  EXPECT_NEAR(all_reduce_seconds(device, {2, 2}, 1e10), 1, 1e-9);
  EXPECT_NEAR(all_reduce_seconds(device, {8, 8}, 1e10), 2 * 7.0 / 8 / 7, 1e-9);
}

TEST(Collectives, BeyondAServerEachDeviceSendsItsPart) {
  DeviceModel device = test::round_device();
  device.fitted.link = 1, device.fitted.collective = 0, device.inside.latency = device.outside.latency = 0;
  EXPECT_NEAR(all_reduce_seconds(device, {16, 8}, 8e10), 2 * (0.7 + 0.5 * 1e10 / 1e10), 1e-9);
  // Neighbours of a group that are eight apart are in different servers.
  EXPECT_EQ(group_of(device, 4, 8).ranks_a_host, 1);
  EXPECT_EQ(group_of(device, 4, 2).ranks_a_host, 4);
}

}  // namespace
}  // namespace transom
