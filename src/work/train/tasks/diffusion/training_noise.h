// SPDX-License-Identifier: Apache-2.0
// What training adds to clean samples (Ho et al., 2020), drawn row by row by torch's generator, and how much the loss
// of a timestep counts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/diffusion/schedulers/scheduler.h"
#include "transom/training_arguments.h"
#include "work/train/tasks/diffusion/drawn_noise.h"

namespace transom {

class TrainingNoise : public DrawnNoise {
 public:
  // The schedule, and the arguments that change what is drawn. `prediction_types`: those that the task takes.
  TrainingNoise(const Scheduler& scheduler, const ScriptArguments& script,
                std::initializer_list<std::string_view> prediction_types, const std::string& where);

  const std::string& prediction_type() const override { return prediction_type_; }
  void draw(Batch& batch, int64_t channels, int64_t height, int64_t width, std::span<Mt19937> randoms,
            std::span<const RowCount> counts) const override;

 private:
  size_t drawn_timestep(Mt19937& random) const;
  float weight_of(size_t timestep) const;
  void add_bias(const ScriptArguments& script);

  std::vector<float> alphas_;   // the product of 1 - beta up to each timestep
  std::vector<double> likely_;  // cumulated probabilities of timesteps; empty: equal ones
  std::string prediction_type_;
  std::optional<double> snr_gamma_;
  float offset_, perturbation_;
};

}  // namespace transom
