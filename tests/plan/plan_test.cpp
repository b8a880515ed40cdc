// SPDX-License-Identifier: Apache-2.0
// What must hold of every plan, whatever its rates are.
#include "plan/plan.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"
#include "base/json.h"
#include "jobs.h"

namespace transom {
namespace {

using test::generation_job;
using test::plan_on;
using test::round_device;
using test::training_job;

TEST(Plan, OneDeviceCommunicatesNothing) {
  const Plan plan = plan_on(training_job(), round_device());
  EXPECT_EQ(plan.time.exposed_communication, 0);
  EXPECT_EQ(plan.time.bubble, 0);
  EXPECT_EQ(plan_on(generation_job(), round_device()).time.exposed_communication, 0);
}

TEST(Plan, PartsOfTheTimeAddUpToTheStep) {
  Job job = training_job(16);
  job.optimisations = "tp=2; pp=2; dp=4";
  job.batch_per_device = 0, job.global_batch = 64;
  const Plan plan = plan_on(job, round_device());
  EXPECT_NEAR(plan.time.total(), plan.step_seconds, 1e-9 * plan.step_seconds);
  EXPECT_GT(plan.time.bubble, 0);
  EXPECT_GT(plan.time.exposed_communication, 0);
  EXPECT_NEAR(plan.samples_per_second, 64 / plan.step_seconds, 1e-6);
  EXPECT_NEAR(plan.tokens_per_second, 512 * plan.samples_per_second, 1e-3);
}

TEST(Plan, InterleavedPipelinesHaveSmallerBubbles) {
  Job job = training_job(4);
  job.batch_per_device = 0, job.global_batch = 16;
  job.optimisations = "pp=4; micro=1";
  const Plan plain = plan_on(job, round_device());
  job.optimisations = "pp=4; micro=1; chunks=2";
  EXPECT_LT(plan_on(job, round_device()).time.bubble, plain.time.bubble);
}

TEST(Plan, EachStageOfZeroNeedsLessMemory) {
  double before = 1e300;
  for (const char* zero : {"zero=0", "zero=1", "zero=2", "zero=3"}) {
    Job job = training_job(8);
    job.optimisations = std::string("dp=8; recompute=none; ") + zero;
    const Plan plan = plan_on(job, round_device());
    const double bytes = plan.memory.weights + plan.memory.gradients + plan.memory.optimizer;
    EXPECT_LT(bytes, before) << zero;
    before = bytes;
  }
  EXPECT_NEAR(before, 16 * 6.738e9 / 8, 0.02e9);
}

TEST(Plan, BetterHardwareIsNeverSlower) {
  const DeviceModel device = round_device();
  for (const Job& job : {training_job(), training_job(8), generation_job(), generation_job(64)}) {
    const double before = plan_on(job, device).tokens_per_second;
    DeviceModel faster = device;
    faster.bandwidth *= 2;
    EXPECT_GE(plan_on(job, faster).tokens_per_second, before);
    faster = device;
    faster.peaks["bf16"] *= 2;
    EXPECT_GE(plan_on(job, faster).tokens_per_second, before);
  }
}

// Kernels for one row multiply in vector lanes: no unit's idle rows count.
TEST(Plan, OneSequenceIsDecodedAsFastAsItsWeightsAreRead) {
  DeviceModel device = round_device();
  device.fitted.half_width = 500, device.fitted.layer_inference = 0;
  const Plan plan = plan_on(generation_job(), device);
  EXPECT_LT(plan.time.matrix, 0.2 * plan.time.memory);
  device.peaks.erase("fp32");
  EXPECT_GT(plan_on(generation_job(), device).time.matrix, 2 * plan.time.matrix);
}

TEST(Plan, PoolingAndLargeMapsCountWhereTheyHaveLanesOfTheirOwn) {
  Job job;
  job.task = JobTask::kInfer, job.model = "net", job.hardware = "round", job.batch_per_device = 8;
  const auto seconds = [&](double lanes, const char* more) {
    DeviceModel device = round_device();
    device.vector_operations = lanes;
    job.config =
        fmt::format(R"({{"model_type": "convolutional", "forward_gflop_per_sample": 4, "parameters": 1e7{}}})", more);
    return plan_on(job, device).step_seconds;
  };
  const char *pools = R"(, "vector_operations_per_sample": 4e7)", *maps = R"(, "large_map_elements_per_sample": 2e7)";
  EXPECT_GT(seconds(1e10, pools), seconds(1e10, "") + 0.01);
  EXPECT_GT(seconds(1e10, maps), seconds(1e10, ""));
  EXPECT_EQ(seconds(0, pools), seconds(0, ""));
}

TEST(Plan, MoreDevicesDoNotRaiseTheTimeOfProducts) {
  double before = 1e300;
  for (double n = 1; n <= 64; n *= 2) {
    Job job = training_job(n);
    job.batch_per_device = 0, job.global_batch = 64,
    job.optimisations = "micro=1; dp=" + std::to_string(static_cast<int>(n));
    const double matrix = plan_on(job, round_device()).time.matrix;
    EXPECT_LE(matrix, before * 1.0001);
    before = matrix;
  }
}

TEST(Plan, AdaptersNeedLessTimeAndMemory) {
  Job job = training_job();
  const Plan full = plan_on(job, round_device());
  job.optimisations = "lora=r8";
  const Plan adapters = plan_on(job, round_device());
  EXPECT_LT(adapters.step_seconds, full.step_seconds);
  EXPECT_LT(adapters.memory.optimizer, full.memory.optimizer / 100);
}

TEST(Plan, DecodingReadsTheWeightsOnce) {
  Job job = generation_job();
  DeviceModel device = round_device();
  device.fitted.memory = 1, device.fitted.layer_inference = 0, device.fitted.half_width = 0;
  const Plan plan = plan_on(job, device);
  EXPECT_GT(plan.token_seconds, 6.6e9 * 2 / 1e12);
  EXPECT_LT(plan.token_seconds, 1.2 * 6.8e9 * 2 / 1e12);
  EXPECT_NEAR(plan.request_seconds, plan.first_token_seconds + 127 * plan.token_seconds, 1e-9);
  EXPECT_NEAR(plan.tokens_per_second, 128 / plan.request_seconds, 1e-6);
  job.global_batch = 32;
  EXPECT_GT(plan_on(job, device).tokens_per_second, 10 * plan.tokens_per_second);
}

TEST(Plan, WhatDoesNotFitSaysSo) {
  DeviceModel device = round_device();
  EXPECT_TRUE(plan_on(generation_job(), device).fits);
  device.memory_bytes = 8e9;
  EXPECT_FALSE(plan_on(generation_job(), device).fits);
  EXPECT_FALSE(plan_on(training_job(), device).fits);
}

TEST(Plan, ImpossibleLayoutsNameTheField) {
  Job job = training_job(8);
  for (const char* layout : {"tp=3; dp=2", "pp=16", "dp=16", "zero=7", "tp=none"}) {
    job.optimisations = layout;
    try {
      plan_on(job, round_device());
      ADD_FAILURE() << layout;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find("optimisations"), std::string::npos) << error.what();
    }
  }
}

TEST(Plan, AThousandsOfDevicesAreSearchedInSeconds) {
  const auto begin = std::chrono::steady_clock::now();
  Job job = training_job(4096);
  job.batch_per_device = 0, job.global_batch = 4096, job.optimisations = "layout not stated";
  const Plan plan = plan_on(job, round_device());
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.layout.devices(), 4096);
  EXPECT_LT(plan.availability, 1);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 5);
}

TEST(Plan, PricesMakeCostsOfTokens) {
  Job job = generation_job();
  job.usd_per_hour = 36;
  const Plan plan = plan_on(job, round_device());
  EXPECT_NEAR(plan.usd_per_million_tokens, 36 / 3600.0 / plan.tokens_per_second * 1e6, 1e-6);
  EXPECT_NEAR(plan.joules_per_token, plan.watts / plan.tokens_per_second, 1e-9);
}

TEST(Plan, EveryDeviceFilePlansEveryTask) {
  const std::vector<DeviceModel> devices = all_device_models();
  EXPECT_GE(devices.size(), 30u);
  for (const DeviceModel& device : devices)
    for (const JobTask task : {JobTask::kPretrain, JobTask::kFinetune, JobTask::kInfer, JobTask::kGenerate}) {
      Job job;
      job.task = task, job.model = "gpt2", job.hardware = device.name, job.sequence_length = 128;
      const Plan made = plan(job);
      EXPECT_GT(made.tokens_per_second, 0) << device.name;
      EXPECT_GT(made.step_seconds, 0) << device.name;
      EXPECT_GT(made.memory.total(), 0) << device.name;
      const Json json = Json::parse(plan_json(made));
      for (const char* field : {"memory_bytes_per_device", "devices"})
        EXPECT_TRUE(json[field].is_number_integer()) << field << ": " << json[field];
      for (const char* field : {"samples_per_second", "tokens_per_second", "step_seconds", "memory_bytes_per_device",
                                "fits", "usd_per_hour", "usd_per_million_tokens", "watts", "joules_per_token", "layout",
                                "time", "first_token_seconds", "request_seconds", "past_error"})
        EXPECT_TRUE(json.contains(field)) << field;
    }
}

}  // namespace
}  // namespace transom
