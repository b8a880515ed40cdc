// SPDX-License-Identifier: Apache-2.0
// From the arguments of a run to what the Trainer needs: the model with its head, rows as batches, metrics.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transom/dataset.h"
#include "transom/hub.h"
#include "transom/trainer.h"
#include "work/train/setup/teacher.h"

namespace transom {

// The files of a run, cut to max_train_samples and its like; at least one of them is there.
struct TaskFiles {
  std::optional<Dataset> train, validation, test;
  std::optional<Dataset> whole;  // any() before it was cut
  const Dataset& any() const { return train ? *train : validation ? *validation : *test; }
  // Classes are those of all rows, also of those that are left out.
  const Dataset& with_all_classes() const { return whole ? *whole : any(); }
};

struct TaskSetup {
  std::unique_ptr<Model> model;
  TrainingArguments training;  // of the run, with the task's own defaults
  std::string reads;  // "text: column comment; label: 3 classes; 60 rows", which is said when all is found right
  Teacher teacher;
  std::optional<TrainingData> train, validation, test;
  std::function<NamedTensors(const NamedTensors&)> preprocess_outputs;
  std::function<NamedTensors(const NamedTensors& inputs)> predict;  // as Trainer::set_predictor
  std::function<Metrics(const Predictions&)> compute_metrics;
  std::shared_ptr<Objective> objective;  // null: the model's own loss
  // Makes what needs the model with its adapters, where there is such.
  std::function<void(TaskSetup&)> complete;
  // The names of what that gives, where they are known before.
  std::optional<std::vector<std::string>> metric_names;
  // Adds to the metrics of the evaluation that ends a run.
  std::function<void(Metrics&)> complete_evaluation;
  // Writes what was predicted for `test` into a directory, in the files of the example scripts; gives the metrics where
  // rows have labels.
  std::function<Metrics(const Predictions&, const std::filesystem::path& directory)> write_predictions;
  std::function<void(const std::string& directory)> save_tokenizer;
};

// Reads files, tokenises rows, finds labels, and loads the model for the task. `hub` as for fetch_models.
TaskSetup prepare_task(TrainArguments arguments, HubOptions hub = {});

// Puts directories in place of models that are named by an id of the Hugging Face Hub. Revision, token and cache are
// those of the arguments; the rest is `hub`'s.
void fetch_models(ScriptArguments& script, HubOptions hub);
// Gives a Trainer its data (which it takes out of the setup), metrics, and files to save.
void configure_trainer(Trainer& trainer, TaskSetup& setup);

// Repeats one batch for `max_steps` updates.
void overfit_one_batch(Model& model, const TrainingArguments& arguments, const NamedTensors& inputs,
                       const std::function<void(const StepReport&)>& report);

}  // namespace transom
