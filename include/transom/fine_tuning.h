// SPDX-License-Identifier: Apache-2.0
// Fine-tuning from files in one call: what `transom train` does.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "transom/hub.h"
#include "transom/trainer.h"
#include "transom/training_arguments.h"

namespace transom {

struct FineTuneOptions {
  std::vector<std::shared_ptr<TrainerCallback>> callbacks;
  std::function<void(const StepReport&)> on_step;  // the numbers of each update, for which the host waits
  HubOptions hub;                                  // of models named by their id
};

// The metrics of each part of the run; empty for parts that the arguments do not ask for.
struct FineTuneResult {
  Metrics train, evaluation, prediction;
  // The checkpoint of a run that a callback interrupted (TrainerCallback::should_interrupt). Such a run writes neither
  // model nor metrics, and evaluates nothing.
  std::optional<std::string> interrupted;
};

// Reads the files, tokenises their rows, loads the model with the task's head, trains, evaluates and predicts as the
// arguments say, and writes into output_dir what Trainer and the example scripts write: the model, its tokenizer,
// checkpoints, trainer_state.json, all_results.json; and training_curve.svg.
FineTuneResult fine_tune(TrainArguments arguments, const FineTuneOptions& options = {});

}  // namespace transom
