// SPDX-License-Identifier: Apache-2.0
// From the arguments of a run to what the Trainer needs: the model with its head, rows as batches, metrics.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "transom/hub.h"
#include "transom/trainer.h"

namespace transom {

struct TaskSetup {
  std::unique_ptr<Model> model;
  std::optional<TrainingData> train, validation;
  std::function<Metrics(const Predictions&)> compute_metrics;
  std::function<void(const std::string& directory)> save_tokenizer;
};

// Reads files, tokenises rows, finds labels, and loads the model for the task. `hub` as for fetch_models.
TaskSetup prepare_task(TrainArguments arguments, HubOptions hub = {});

// Puts directories in place of models that are named by an id of the Hugging Face Hub. Revision, token and cache are
// those of the arguments; the rest is `hub`'s.
void fetch_models(ScriptArguments& script, HubOptions hub);

// Repeats one batch for `max_steps` updates.
void overfit_one_batch(Model& model, const TrainingArguments& arguments, const NamedTensors& inputs,
                       const std::function<void(const StepReport&)>& report);

}  // namespace transom
