// SPDX-License-Identifier: Apache-2.0
// Schedules of the learning rate: those of transformers.get_scheduler, equal to them in float64.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "transom/training_arguments.h"

namespace transom {

struct ScheduleOptions {
  // "linear", "cosine", "constant_with_warmup" ...: TrainingArguments::lr_scheduler_type.
  std::string type = "linear";
  JsonText settings;  // TrainingArguments::lr_scheduler_kwargs, {"num_cycles": 0.5}
  double learning_rate = 5e-5;
  int64_t warmup_steps = 0;
  int64_t steps = 0;  // of the whole run
};

// The learning rate of update `step`, counted from 0. For a training loop of your own; a Trainer has its own. Safe from
// all threads. reduce_lr_on_plateau, which needs metrics, is refused. Errors name the type or the setting that is
// unknown, missing or of the wrong type.
std::function<double(int64_t step)> learning_rate_schedule(const ScheduleOptions& options);

}  // namespace transom
