// SPDX-License-Identifier: Apache-2.0
// torch.optim.lr_scheduler.ReduceLROnPlateau: the learning rate falls when a metric has stopped improving.
#pragma once

#include <limits>
#include <optional>

#include "work/train/loop/schedules.h"

namespace transom {

struct PlateauOptions {
  double learning_rate = 5e-5;
  bool mode_max = false;  // whether more of the metric is better
  double factor = 0.1;    // of the learning rate at each reduction
  int64_t patience = 10;  // evaluations without improvement that are let pass
  double threshold = 1e-4;
  bool relative = true;  // the threshold is a ratio of the best value
  int64_t cooldown = 0;  // evaluations after a reduction that do not count
  double minimum = 0;
  double epsilon = 1e-8;  // smaller reductions are not made
};

class PlateauSchedule : public Schedule {
 public:
  explicit PlateauSchedule(PlateauOptions options) : options_(options), learning_rate_(options.learning_rate) {}
  double learning_rate() const override { return learning_rate_; }
  void observe(double metric) override;
  Json state() const override;
  void load(const Json& state) override;

 private:
  bool is_better(double metric) const;
  PlateauOptions options_;
  double learning_rate_;
  std::optional<double> best_;
  int64_t bad_ = 0, cooling_ = 0, observed_ = 0;
};

}  // namespace transom
