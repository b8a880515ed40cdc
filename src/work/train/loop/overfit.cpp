// SPDX-License-Identifier: Apache-2.0
#include "models/loading/adapters/adaptation.h"
#include "runtime/distributed/process_group.h"
#include "work/train/loop/schedules.h"
#include "work/train/step/train_step.h"
#include "work/train/tasks/task_data.h"

namespace transom {

void overfit_one_batch(Model& model, const TrainingArguments& arguments, const NamedTensors& inputs,
                       const std::function<void(const StepReport&)>& report) {
  TrainStep step(model, arguments, /*counts_labels=*/false);
  const auto schedule = make_schedule({.type = arguments.lr_scheduler_type,
                                       .settings = arguments.lr_scheduler_kwargs,
                                       .learning_rate = arguments.learning_rate,
                                       .warmup_steps = arguments.warmup_steps_of(arguments.max_steps),
                                       .steps = arguments.max_steps});
  if (const Adaptation* adaptation = model.adaptation(); adaptation && adaptation->training())
    adaptation->training()->expect_updates(arguments.max_steps);
  for (int64_t i = 0; i < arguments.max_steps; ++i) {
    const double rate = schedule->learning_rate();
    const TrainStep::Result result = step({inputs}, rate, i);
    // A rank with another batch or model would add what does not belong together.
    if (ProcessGroup* group = process_group(); group && i == 0) group->expect_equal_collectives();
    report({i + 1, result.loss.item<float>(), result.gradient_norm.item<float>(), rate});
    schedule->step();
  }
}

}  // namespace transom
