// SPDX-License-Identifier: Apache-2.0
// Noise of the training of flows (Esser et al., 2024): a sample lies on the straight line to its noise, at a place that
// is drawn, and the network says the direction.
#pragma once

#include <vector>

#include "transom/config.h"
#include "transom/training_arguments.h"
#include "work/train/tasks/diffusion/drawn_noise.h"

namespace transom {

constexpr const char* kToldGuidance = "guidance";  // [B]

class FlowNoise : public DrawnNoise {
 public:
  // `schedule`: of a FlowMatchEulerDiscreteScheduler, whose places of training they are. `is_packed`: the network reads
  // a thousandth of the time; `guidance`: what a network that knows it is told; empty: it does not.
  FlowNoise(const Config& schedule, const ScriptArguments& script, std::string weighting_scheme, bool is_packed,
            std::optional<double> guidance);

  const std::string& prediction_type() const override { return prediction_type_; }
  void draw(Batch& batch, int64_t channels, int64_t height, int64_t width, std::span<Mt19937> randoms,
            std::span<const RowCount> counts) const override;

 private:
  size_t drawn_place(Mt19937& random) const;
  float weight_of(float sigma) const;

  std::string prediction_type_ = "flow", scheme_;
  std::vector<float> sigmas_;  // from 1 down
  float mean_, deviation_, mode_scale_;
  bool is_packed_;
  std::optional<float> guidance_;
};

}  // namespace transom
