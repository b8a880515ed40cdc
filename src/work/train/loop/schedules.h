// SPDX-License-Identifier: Apache-2.0
// How the learning rate goes: the schedules of Transformers (transformers.get_scheduler) and of
// torch.optim.lr_scheduler.ReduceLROnPlateau, equal to them in float64.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/json/json_fwd.h"
#include "transom/schedule.h"

namespace transom {

class Schedule {
 public:
  virtual ~Schedule() = default;
  // The learning rate of the next update.
  virtual double learning_rate() const = 0;
  // After an update.
  virtual void step() {}
  // After an evaluation, with the metric that tells the best model.
  virtual void observe(double metric) { (void)metric; }
  // What a resumed run needs.
  virtual Json state() const = 0;
  virtual void load(const Json& state) = 0;
};

// Errors name lr_scheduler_type or the setting that is unknown, missing or of the wrong type.
std::unique_ptr<Schedule> make_schedule(const ScheduleOptions& options);

}  // namespace transom
