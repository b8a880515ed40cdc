// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "transom/trainer.h"
#include "work/train/log/batch_measures.h"
#include "work/train/step/train_step.h"

namespace transom {

// Losses and gradient norms of a run's updates. Where the device works in the background they stay on it until they
// are asked for, so that the host does not wait at each update; elsewhere they are read at once, which costs nothing.
class LossLog {
 public:
  using OnStep = std::function<void(const StepReport&)>;

  // Begins a run behind `step` updates. `not_finite` is called where a loss or norm is no number, and may throw;
  // `report`, which may be empty, for each update, and makes each be read at once.
  void begin(int64_t step, OnStep not_finite, OnStep report);

  // The update that made `step` of them.
  void add(const TrainStep::Result& result, int64_t step, double learning_rate);
  // Reads what waits on the device: before what needs it, and before a model is saved.
  void read();

  // ---- of what was read
  // Since the last record at `step` updates: none where no loss was finite. What is no number counts as the mean so
  // far, as with Trainer's logging_nan_inf_filter.
  std::optional<double> mean_loss(int64_t step) const;
  // Of what TrainStep measures, over the micro-batches since the last record; empty where it measures nothing.
  std::vector<std::optional<double>> mean_measures() const { return measures_.means(); }
  double last_norm() const { return last_norm_; }
  int64_t recorded() const { return recorded_; }  // updates up to the last record
  double total() const { return total_; }         // of all losses of the run
  void next_record(int64_t step);

  size_t waiting() const { return waiting_.size(); }

 private:
  struct Waiting {
    TrainStep::Result result;
    int64_t step;
    double learning_rate;
  };
  std::vector<Waiting> waiting_;
  OnStep not_finite_, report_;
  MeasureMeans measures_;
  int64_t recorded_ = 0, finite_ = 0;
  double sum_ = 0, total_ = 0, last_norm_ = 0;
};

}  // namespace transom
