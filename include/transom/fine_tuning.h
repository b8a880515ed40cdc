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
  std::function<void(const StepReport&)> on_step;  // each update's numbers; the host then waits for each
  HubOptions hub;                                  // how a model that is named by its id is downloaded
};

// What each part of the run reported; empty for parts that the arguments do not ask for.
struct FineTuneResult {
  Metrics train, evaluation, prediction;
  // The checkpoint of a run that a callback interrupted (TrainerCallback::should_interrupt); neither the model nor
  // metrics were written, nothing was evaluated.
  std::optional<std::string> interrupted;
};

// Reads the files, tokenises their rows, loads the model with the task's head, trains, evaluates and predicts as the
// arguments say, and writes into output_dir what Trainer and the example scripts write: the model, its tokenizer,
// checkpoints, trainer_state.json, all_results.json; and training_curve.svg.
FineTuneResult fine_tune(TrainArguments arguments, const FineTuneOptions& options = {});

}  // namespace transom
