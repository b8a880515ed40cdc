// SPDX-License-Identifier: Apache-2.0
// What a job will deliver: times, memory, cost and energy, with the error that past predictions of its kind had.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/plan/job.h"
#include "tools/plan/layout.h"
#include "tools/plan/machines/device_model.h"
#include "tools/plan/shape/model_shape.h"

namespace transom {

// Seconds of a step by what they go to. They add up to the step.
struct StepTime {
  double matrix = 0, vector = 0, memory = 0, exposed_communication = 0, bubble = 0, fixed = 0;
  double total() const { return matrix + vector + memory + exposed_communication + bubble + fixed; }
};

struct DeviceMemory {  // bytes
  double weights = 0, gradients = 0, optimizer = 0, activations = 0, cache = 0, reserve = 0;
  double total() const { return weights + gradients + optimizer + activations + cache + reserve; }
};

struct PastError {
  double median_percent = 0;  // of predictions left out of their own fit
  double within_percent = 0;  // what this plan promises: two thirds of such promises were kept
  double deviation = 0;       // of log(predicted / published), as far as near figures tell; 0: unknown
  int rows = 0;
  std::string kind;  // what they have in common with this job
  std::string nearest;
  double nearest_ratio = 0;  // predicted / published
};

struct Plan {
  Job job;
  std::string device, model;
  double samples_per_second = 0, tokens_per_second = 0, step_seconds = 0;
  double first_token_seconds = 0, token_seconds = 0, request_seconds = 0;  // of generation; else 0
  double batch = 0;  // samples, or sequences in flight, of the whole machine
  Layout layout, second_layout;
  double second_step_seconds = 0;  // of the best layout of another kind; 0: there was none
  StepTime time;
  DeviceMemory memory;
  bool fits = false;
  double usd_per_hour = 0, usd_per_million_tokens = 0;  // 0: no price is known
  std::string price_source;
  double watts = 0, joules_per_token = 0;
  double availability = 1;  // share of the time that is no failure, recovery or checkpoint; thousands of devices
  std::vector<std::string> assumptions;
  PastError past_error;
};

class PublishedFigures;  // plan/published_figures.h

Plan plan(const Job& job);
// The same with what was read before; touches no file. Without figures it is what the rates of the device alone say.
Plan plan(const Job& job, const ModelShape& shape, const DeviceModel& device,
          const PublishedFigures* figures = nullptr);

// The parts of plan(), by task. They set times, batch, layout and memory.
Plan plan_training(const Job& job, const ModelShape& shape, const DeviceModel& device);
Plan plan_inference(const Job& job, const ModelShape& shape, const DeviceModel& device);
Plan plan_generation(const Job& job, const ModelShape& shape, const DeviceModel& device);

// Cost, energy and availability of what the times say.
void add_economy(Plan& plan, const DeviceModel& device);
// How wrong predictions of this kind have been. Keeps plan.past_error.deviation.
PastError past_error_of(const Plan& plan, const DeviceModel& device, const PublishedFigures& figures);

std::string plan_json(const Plan& plan);                 // the object of docs/plan.md
std::string plan_table(const std::vector<Plan>& plans);  // for people
std::string plan_page(const std::vector<Plan>& plans);   // one HTML file that needs no other

}  // namespace transom
