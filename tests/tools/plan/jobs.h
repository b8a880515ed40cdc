// SPDX-License-Identifier: Apache-2.0
// Jobs and devices for tests of the planner, without any file.
#pragma once

#include "tools/plan/plan.h"

namespace transom::test {

// Round numbers: a product of 1e12 operations takes ten milliseconds at its best, a gigabyte one.
inline DeviceModel round_device() {
  DeviceModel device;
  device.name = device.title = "round";
  device.family = "test";
  device.peaks = {{"bf16", 1e14}, {"fp32", 2e13}};
  device.memory_bytes = 64e9, device.bandwidth = 1e12;
  device.inside = {"switch", 1e11, 1e11, 1e-6};
  device.outside = {"switch", 1e10, 1e10, 1e-5};
  device.devices_per_host = 8;
  device.watts = 400, device.idle_watts = 100;
  return device;
}

inline constexpr const char* kLlama =
    R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
        "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 32000})";

inline Job training_job(double devices = 1) {
  Job job;
  job.task = JobTask::kPretrain;
  job.model = "test", job.config = kLlama, job.hardware = "round";
  job.devices = devices, job.batch_per_device = 1, job.sequence_length = 512;
  return job;
}

inline Job generation_job(double batch = 1) {
  Job job = training_job();
  job.task = JobTask::kGenerate;
  job.batch_per_device = 0, job.global_batch = batch, job.sequence_length = 128, job.output_length = 128;
  return job;
}

inline Plan plan_on(const Job& job, const DeviceModel& device) {
  return plan(job, model_shape_of(job.config, job.model, 0), device);
}

}  // namespace transom::test
