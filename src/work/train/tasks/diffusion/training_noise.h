// SPDX-License-Identifier: Apache-2.0
// What training adds to clean samples (Ho et al., 2020), drawn row by row by torch's generator, and how much the loss
// of a timestep counts. B batch, C channels, H x W extents.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/numbers/mt19937.h"
#include "models/diffusion/schedulers/scheduler.h"
#include "transom/batch.h"
#include "transom/training_arguments.h"

namespace transom {

// What a batch has beside the clean samples and what tells the network of the text.
constexpr const char *kTimestep = "timestep",                // i64 [B]
    *kNoise = "noise",                                       // [B, C, H, W]
        *kInputNoise = "input_noise",                        // what is added to the input where it is another
            *kKept = "kept_share", *kAdded = "added_share",  // [B, 1, 1, 1]: of the clean sample and of the noise
                                       *kRowWeight = "row_weight";  // [B, 1, 1, 1]; none: all count alike

// How much a row's loss counts, and whether its signal-to-noise ratio does.
struct RowCount {
  float factor = 1;
  bool by_ratio = true;
};

class TrainingNoise {
 public:
  // The schedule, and the arguments that change what is drawn. `prediction_types`: those that the task takes.
  TrainingNoise(const Scheduler& scheduler, const ScriptArguments& script,
                std::initializer_list<std::string_view> prediction_types, const std::string& where);

  const std::string& prediction_type() const { return prediction_type_; }
  // The draws of each row begin where its generator stands. `counts`: of the rows; empty: the usual ones.
  void draw(Batch& batch, int64_t channels, int64_t height, int64_t width, std::span<Mt19937> randoms,
            std::span<const RowCount> counts = {}) const;

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
