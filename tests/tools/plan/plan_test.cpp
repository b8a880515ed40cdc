// SPDX-License-Identifier: Apache-2.0
// What must hold of every plan, whatever its rates are.
#include "tools/plan/plan.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"
#include "base/json/json.h"
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

TEST(Plan, LayerEnginesPoolMoveMapsAndWaitForTheHost) {
  Job job;
  job.task = JobTask::kInfer, job.hardware = "round", job.batch_per_device = 8, job.dtype = "int8";
  DeviceModel device = round_device();
  device.fitted.engine_products = device.fitted.engine_lanes = 0.5;
  LayerEngine& engine = device.engine;
  engine.input_channels = engine.output_channels = engine.lane_channels = 32, engine.pixels = 4, engine.lane_pixels = 2;
  engine.engines = 8, engine.cycles_per_second = 1e9, engine.map_bytes = 2e6;
  const auto made = [&](const char* model, const char* more = "") {
    job.model = model;
    job.config = fmt::format(R"({{"model_type": "convolutional", "forward_gflop_per_sample": 4{}}})", more);
    return plan_on(job, device);
  };
  const Plan plain = made("net");
  ASSERT_FALSE(plain.assumptions.empty());
  EXPECT_NE(plain.assumptions.back().find("layers are not known"), std::string::npos) << plain.assumptions.back();
  EXPECT_GT(made("net", R"(, "vector_operations_per_sample": 4e8)").time.vector, plain.time.vector);
  EXPECT_GT(made("net", R"(, "large_map_elements_per_sample": 2e7)").time.memory, plain.time.memory);
  const auto of_table = [&](const char* model) {
    job.model = model, job.config.clear();
    return plan_on(job, device);
  };
  const Plan fires = of_table("squeezenet"), dense = of_table("mobilenet-v1");
  EXPECT_LT(fires.time.matrix, dense.time.matrix);
  EXPECT_GT(fires.time.memory, 2 * dense.time.memory);  // joined maps go out and come back
  EXPECT_GT(dense.time.vector, 3 * fires.time.vector);  // depth-wise filters
  // Nine samples are two rounds of eight engines.
  job.batch_per_device = 9;
  EXPECT_DOUBLE_EQ(of_table("squeezenet").time.matrix, 2 * fires.time.matrix);
  job.batch_per_device = 8;
  const double detector = of_table("yolox-nano").step_seconds;
  engine.host_seconds_per_output = 1e-7;
  EXPECT_NEAR(of_table("yolox-nano").step_seconds, 8 * 301665 * 1e-7, 1e-9);
  EXPECT_LT(detector, 8 * 301665 * 1e-7);
  // Half of the operations left: half of the steps of products, less of the maps.
  job.model = "resnet-50", job.config = R"({"forward_gflop_per_sample": 4.1})";
  const Plan pruned = plan_on(job, device);
  EXPECT_NEAR(pruned.time.matrix / of_table("resnet-50").time.matrix, 0.5, 0.01);
}

TEST(Plan, AHeadOverMaskedPositionsTakesLessTimeAndMemory) {
  Job job = training_job();
  job.task = JobTask::kPretrain, job.model = "bert-base-uncased", job.config.clear(), job.parameters = 0;
  job.sequence_length = 128, job.batch_per_device = 32, job.optimisations = "dp=1";
  const Plan all = plan_on(job, round_device());
  job.optimisations = "dp=1; max_predictions_per_seq=20";
  const Plan few = plan_on(job, round_device());
  EXPECT_LT(few.step_seconds, all.step_seconds);
  // Logits of 108 positions less, in 32 bits and their gradients.
  EXPECT_NEAR(all.memory.activations - few.memory.activations, 32.0 * 108 * 30522 * 8 * 1.06, 1e6);
  job.optimisations = "dp=1; max_predictions_per_seq=128";
  EXPECT_DOUBLE_EQ(plan_on(job, round_device()).step_seconds, all.step_seconds);
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

// As its price, the power of a host is shared by the devices in it.
TEST(Plan, ADeviceDrawsItsShareOfTheHost) {
  DeviceModel device = round_device();
  device.devices_per_host = 8, device.host_watts = 800, device.watts = device.idle_watts = 100;
  Job job = generation_job();
  for (const double devices : {1.0, 2.0, 8.0, 16.0}) {
    job.devices = devices, job.hosts = 0;
    EXPECT_NEAR(plan_on(job, device).watts / devices, 1.25 * (100 + 800 / 8.0), 1e-9) << devices;
  }
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
