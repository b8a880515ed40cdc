// SPDX-License-Identifier: Apache-2.0
// Schedulers of diffusion models: from what the model predicts of a noisy sample to a less noisy one. Each gives the
// numbers of diffusers' class of its name, operation by operation in float32. An object is one run: some keep what the
// model said before. They know no tensors: samples are row-major numbers [rows, channels, ...].
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transom/config.h"

namespace transom {

// What a run asks of a schedule beside the number of its steps.
struct NoiseScheduleOptions {
  std::optional<double> mu;                         // of schedules that are shifted by the size of the picture
  std::vector<double> timesteps, sigmas;            // of classes that take them: in place of their own; empty: those
  double strength = 1;                              // of LCM: the part of its training schedule that is used
  std::optional<int64_t> original_inference_steps;  // of LCM: in place of its configuration's
};

// What a step needs beside the sample and what the model says of it.
struct DenoisingStep {
  int64_t rows = 1, channels = 1;
  double eta = 0;                               // of DDIM: how much of DDPM's noise is added
  std::function<void(std::span<float>)> noise;  // fills with standard normal numbers
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;

  // Makes the schedule of a run and forgets an earlier one.
  virtual void set_timesteps(int64_t steps, const NoiseScheduleOptions& options = {}) = 0;
  // What the model is told at each of its calls, whose number is a multiple of the steps (order()).
  const std::vector<double>& timesteps() const { return timesteps_; }
  // Noise levels of the calls and behind them the last one's; empty where the class has none.
  const std::vector<float>& sigmas() const { return sigmas_; }
  virtual int64_t order() const { return 1; }            // calls of the model a step
  virtual float initial_deviation() const { return 1; }  // what standard normal numbers are multiplied by at the start

  // The sample as the model wants to see it at call `index`.
  virtual void scale_input(std::span<float> sample, size_t index) const;
  // The next sample. `index`: the call's place in timesteps().
  virtual std::vector<float> step(size_t index, std::span<const float> model_output, std::span<const float> sample,
                                  const DenoisingStep& request) = 0;
  // The sample that stands at call `index` of a run whose end is `original`.
  virtual std::vector<float> add_noise(std::span<const float> original, std::span<const float> noise,
                                       size_t index) const = 0;
  // Of classes with a discrete schedule of noise: the product of 1 - beta up to each training timestep; empty: none.
  virtual std::span<const float> alphas_cumprod() const { return {}; }
  virtual bool takes_eta() const { return false; }  // whether DenoisingStep::eta has an effect
  // Whether a run may ask for timesteps or noise levels of its own. Euler's levels end with the one behind the last
  // call.
  virtual bool takes_timesteps() const { return false; }
  virtual bool takes_sigmas() const { return false; }
  virtual std::string prediction_type() const = 0;  // "epsilon", "sample", "v_prediction", "flow"

 protected:
  std::vector<double> timesteps_;
  std::vector<float> sigmas_;
};

// The class that the configuration (scheduler_config.json) names, or `class_name` with the same configuration, as
// diffusers' from_config does it: fields that were defaults of the class that wrote the file are this one's defaults.
std::unique_ptr<Scheduler> make_scheduler(const Config& config, const std::string& class_name = "");

// The classes by their names in diffusers ("DDIMScheduler").
std::vector<std::string> scheduler_names();
// By a name in diffusers or a short one ("ddim", "euler_ancestral", "dpm_solver"); refuses unknown ones.
std::string scheduler_class(std::string_view name);

}  // namespace transom
