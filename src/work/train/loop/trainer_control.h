// SPDX-License-Identifier: Apache-2.0
// When a run logs, evaluates, saves and stops (Transformers' DefaultFlowCallback and EarlyStoppingCallback).
#pragma once

#include "work/train/files/trainer_state.h"

namespace transom {

struct TrainerControl {
  bool log = false, evaluate = false, save = false, stop = false;
  bool operator==(const TrainerControl&) const = default;
};

// After an update; `state.global_step` counts it, and `state.compute_steps` was called.
TrainerControl after_step(const TrainingArguments& arguments, const TrainerState& state);
// After the last update of an epoch, of which after_step told too.
TrainerControl after_epoch(const TrainingArguments& arguments, const TrainerState& state);

class EarlyStopping {
 public:
  EarlyStopping(int64_t patience, double threshold) : patience_(patience), threshold_(threshold) {}
  // With the metric of an evaluation and the best one before it; whether to stop.
  bool observe(double metric, std::optional<double> best, bool greater_is_better);
  // As `stateful_callbacks` of trainer_state.json holds it.
  JsonText state() const;
  void load(const JsonText& state);

 private:
  int64_t patience_;
  double threshold_;
  int64_t worse_ = 0;  // evaluations since the last better one
};

}  // namespace transom
