// SPDX-License-Identifier: Apache-2.0
#include "transom/fine_tuning.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "runtime/distributed/process_group.h"
#include "transom/distributed.h"
#include "work/train/files/checkpoints.h"
#include "work/train/files/trainer_state.h"
#include "work/train/files/training_curve.h"
#include "work/train/loop/run_checks.h"
#include "work/train/tasks/task_data.h"

namespace transom {
namespace {

// The metrics as the example scripts save them: with the epoch and the number of rows.
LogRecord record_of(const Metrics& metrics, const TrainerState& state, const std::string& rows_name, int64_t rows) {
  LogRecord record;
  for (const auto& [name, value] : metrics) {
    if (name.find("_mem_") == name.npos) record.emplace_back(name, value);
    else record.emplace_back(name, static_cast<int64_t>(value));  // bytes
  }
  record.emplace_back("epoch", state.epoch);
  record.emplace_back(rows_name, rows);
  return record;
}

// Predicts the test file, and saves metrics where it has labels.
Metrics predict(Trainer& trainer, TaskSetup& task, const std::string& output_dir) {
  const Predictions predictions = trainer.predict(*task.test);
  Metrics metrics;
  if (process_rank() > 0) return metrics;
  if (predictions.loss) metrics.emplace_back("predict_loss", *predictions.loss);
  for (const auto& [name, value] : task.write_predictions(predictions, output_dir))
    metrics.emplace_back("predict_" + name, value);
  metrics.insert(metrics.end(), predictions.memory.begin(), predictions.memory.end());
  if (!metrics.empty())
    save_metrics(output_dir, "predict", record_of(metrics, trainer.state(), "predict_samples", task.test->rows));
  return metrics;
}

// A run never takes, and never mixes with its own, the checkpoints of another run.
// Whether the path leads into a checkpoint of the output directory.
bool is_in_checkpoint_of(const fs::path& output, const fs::path& path) {
  std::error_code none;
  const fs::path inner = fs::weakly_canonical(path, none).lexically_relative(fs::weakly_canonical(output, none));
  return !none && !inner.empty() && inner.begin()->string().starts_with("checkpoint-");
}

void expect_no_checkpoints(const TrainArguments& arguments) {
  const std::string& output = arguments.training.output_dir;
  const std::string& model = arguments.script.model_name_or_path;
  if (arguments.script.overwrite_output_dir && !model.empty() && is_in_checkpoint_of(output, model))
    fail(ErrorKind::kUsage,
         "--overwrite_output_dir would remove {}, which the run starts from: give another --output_dir", model);
  if (!arguments.training.do_train || arguments.training.resume_from_checkpoint ||
      arguments.script.overwrite_output_dir)
    return;
  if (const auto last = last_whole_checkpoint(output))
    fail(ErrorKind::kUsage,
         "--output_dir: {} holds {} of another run: give --resume_from_checkpoint to go on with it, "
         "--overwrite_output_dir to remove it, or another --output_dir",
         output, *last);
}

void expect_evaluation_data(const TrainingArguments& training, const TaskSetup& task) {
  if (task.validation) return;
  std::optional<std::string> asks = asks_for_evaluation(training);
  if (!asks && training.do_eval) asks = "do_eval";
  if (asks)
    fail(ErrorKind::kUsage, "--{}: there is nothing to evaluate: give --validation_file (or --validation_dir)", *asks);
}

// A name that no evaluation gives would end the run at its first one.
void expect_best_metric(const TrainingArguments& training, const TaskSetup& task) {
  if (!training.do_train || !training.metric_for_best_model || training.eval_strategy == "no") return;
  if (!task.metric_names || !task.validation || !training.skip_memory_metrics) return;
  std::vector<std::string> names = {"eval_loss", "eval_runtime", "eval_samples_per_second", "eval_steps_per_second"};
  if (!training.prediction_loss_only)
    for (const std::string& name : *task.metric_names) names.push_back("eval_" + name);
  const std::string wanted = best_metric_name(training);
  if (std::find(names.begin(), names.end(), wanted) == names.end())
    fail(ErrorKind::kUsage, "--metric_for_best_model: expected one of {}, found {}{}", fmt::join(names, ", "), wanted,
         did_you_mean(wanted, names));
}

}  // namespace

FineTuneResult fine_tune(TrainArguments arguments, const FineTuneOptions& options) {
  TrainingArguments& training = arguments.training;
  const ScriptArguments& script = arguments.script;
  // Where no part is asked for, the files that are given say it. An eval_strategy, which turns do_eval on, speaks of
  // training.
  if (!training.do_train && !training.do_predict && (!training.do_eval || training.eval_strategy != "no")) {
    training.do_train = script.train_file || script.train_dir;
    training.do_eval = script.validation_file || script.validation_dir;
    training.do_predict = script.test_file.has_value();
  }
  if (training.do_train && script.quantization != "none")
    fail(ErrorKind::kUsage,
         "--quantization: nothing is trained in 8-bit integers; leave out do_train and the train_file");
  if (training.do_predict && !script.test_file)
    fail(ErrorKind::kUsage, "--do_predict: expected a --test_file of text, found none");
  if (training.resume_from_checkpoint == "auto") {
    bool found = last_whole_checkpoint(training.output_dir).has_value();
    if (ProcessGroup* group = process_group()) {  // one of them may see an old view of a shared file system
      const double all = group->sum(found ? 1 : 0);
      if (all > 0 && all < process_count())
        fail(
            "resume_from_checkpoint auto: {} of {} processes find a checkpoint in {}; expected a directory that all "
            "share",
            all, process_count(), training.output_dir);
      found = all > 0;
    }
    if (found) training.resume_from_checkpoint = "true";
    else training.resume_from_checkpoint.reset();
  }
  expect_no_checkpoints(arguments);
  TaskSetup task = prepare_task(arguments, options.hub);
  training = task.training;
  expect_evaluation_data(training, task);
  expect_best_metric(training, task);
  if (training.do_predict && (!task.test || !task.write_predictions))
    fail(ErrorKind::kUsage, "--do_predict: {}",
         task.test ? "this task has no predictions to write" : "expected a --test_file of text, found none");
  Trainer trainer(std::move(task.model), training);
  const int64_t train_rows = task.train ? task.train->rows : 0, eval_rows = task.validation ? task.validation->rows : 0;
  configure_trainer(trainer, task);
  if (script.early_stopping_patience)
    trainer.set_early_stopping(*script.early_stopping_patience, script.early_stopping_threshold);
  if (options.on_step) trainer.set_step_reports(options.on_step);
  for (const auto& callback : options.callbacks) trainer.add_callback(callback);

  const fs::path output(training.output_dir);
  make_directories(output);
  const bool writes = process_rank() == 0;  // all processes have the numbers, one writes them
  FineTuneResult result;
  if (training.do_train) {
    if (script.overwrite_output_dir && !training.resume_from_checkpoint && writes) remove_checkpoints(output);
    result.train = trainer.train(training.resume_from_checkpoint);
    result.interrupted = trainer.interrupted();
    if (result.interrupted) return result;
    trainer.save_model();
    if (writes && !result.train.empty()) {  // empty: the run was finished before
      save_metrics(output, "train", record_of(result.train, trainer.state(), "train_samples", train_rows));
      trainer.state().save(output / "trainer_state.json");
    }
    // A run that ended between its last checkpoint and its last files.
    if (writes && result.train.empty() && !path_exists(output / "trainer_state.json"))
      trainer.state().save(output / "trainer_state.json");
  }
  if (training.do_eval) {
    result.evaluation = trainer.evaluate();
    if (task.complete_evaluation) task.complete_evaluation(result.evaluation);
    if (writes) save_metrics(output, "eval", record_of(result.evaluation, trainer.state(), "eval_samples", eval_rows));
    if (writes && !result.train.empty()) trainer.state().save(output / "trainer_state.json");
  }
  if (training.do_predict) result.prediction = predict(trainer, task, training.output_dir);
  if (const std::string curve = draw_training_curve(trainer.state()); writes && training.do_train && !curve.empty())
    write_file(output / "training_curve.svg", curve);
  return result;
}

}  // namespace transom
