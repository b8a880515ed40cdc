// SPDX-License-Identifier: Apache-2.0
// From the arguments of a run to what the Trainer needs: the model with its head, rows as batches, metrics.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "transom/trainer.h"

namespace transom {

struct TaskSetup {
  std::unique_ptr<Model> model;
  std::optional<TrainingData> train, validation;
  std::function<Metrics(const Predictions&)> compute_metrics;
  std::function<void(const std::string& directory)> save_tokenizer;
};

// Reads files, tokenises rows, finds labels, and loads the model for the task.
TaskSetup prepare_task(const TrainArguments& arguments);

// Repeats one batch for `max_steps` updates.
void overfit_one_batch(Model& model, const TrainingArguments& arguments, const NamedTensors& inputs,
                       const std::function<void(const StepReport&)>& report);

}  // namespace transom
