// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/machines/this_machine.h"

#include <gtest/gtest.h>

#include "jobs.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

TEST(ThisMachine, WhatIsMeasuredIsADeviceFileThatPlans) {
  const test::TemporaryFolder folder;
  const DeviceModel device = read_device_model(folder.write("bench.json", measured_device_file("bench")));
  EXPECT_EQ(device.name, "bench");
  EXPECT_TRUE(device.measured);
  EXPECT_GT(device.peak("fp32"), 1e8);
  EXPECT_GT(device.bandwidth, 1e8);
  // Between a tenth of a microsecond and ten milliseconds a layer, whatever runs beside.
  EXPECT_GT(device.fitted.layer_inference, 1e-7);
  EXPECT_LT(device.fitted.layer_inference, 1e-2);
  EXPECT_NEAR(device.fitted.layer_training, 3 * device.fitted.layer_inference, 1e-9);
  Job job = test::generation_job();
  job.dtype = "fp32";
  EXPECT_GT(test::plan_on(job, device).time.fixed, 0);
}

}  // namespace
}  // namespace transom
