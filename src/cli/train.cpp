// SPDX-License-Identifier: Apache-2.0
// transom train: fine-tunes a model on files, with the flags of Transformers' example scripts.
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/progress.h"
#include "cli/command.h"
#include "train/model_inputs.h"
#include "train/task_data.h"
#include "train/trainer_state.h"
#include "transom/trainer.h"

namespace transom {
namespace {

// A bar on a terminal; in a pipe one plain line a record of the log.
class ShowProgress : public TrainerCallback {
 public:
  void on_train_begin(const TrainingArguments&, const TrainerState& state) override {
    bar_.emplace(stderr, "train", state.max_steps, "step", state.global_step);
  }
  void on_step_end(const TrainingArguments&, const TrainerState& state) override {
    bar_->update(state.global_step, fields_);
  }
  void on_log(const TrainingArguments&, const TrainerState&, const Metrics& metrics) override {
    fields_.clear();
    std::string line;
    for (const auto& [name, value] : metrics) {
      if (name == "loss" || name == "learning_rate")
        fields_.emplace_back(name == "loss" ? "loss" : "lr", fmt::format("{:.4g}", value));
      line += fmt::format("{}{} {:.6g}", line.empty() ? "" : "  ", name, value);
    }
    if (bar_) bar_->clear();
    std::puts(line.c_str());
    std::fflush(stdout);
  }

 private:
  std::optional<Progress> bar_;
  ProgressFields fields_;
};

void print_step(const StepReport& report) {
  const Json line = {{"step", report.step},
                     {"loss", report.loss},
                     {"grad_norm", report.gradient_norm},
                     {"learning_rate", report.learning_rate}};
  std::puts(dump_json(line).c_str());
  std::fflush(stdout);
}

// The same batch again and again: the practitioner's check that a model can learn.
int overfit(const TrainArguments& arguments) {
  TrainingArguments training = arguments.training;
  if (training.max_steps <= 0) training.max_steps = 20;
  auto model = Model::from_pretrained(arguments.script.model_name_or_path);
  const NamedTensors inputs = load_inputs(*arguments.script.overfit_batch);
  overfit_one_batch(*model, training, inputs, [&](const StepReport& report) {
    if (arguments.script.json) print_step(report);
    else
      std::puts(fmt::format("step {:>5}  loss {:<12.6g} grad_norm {:<10.4g} learning_rate {:.4g}", report.step,
                            report.loss, report.gradient_norm, report.learning_rate)
                    .c_str());
  });
  return 0;
}

// The metrics as the example scripts save them: with the epoch and the number of rows.
LogRecord record_of(const Metrics& metrics, const TrainerState& state, const std::string& rows_name, int64_t rows) {
  LogRecord record;
  for (const auto& [name, value] : metrics) record.emplace_back(name, value);
  record.emplace_back("epoch", state.epoch);
  record.emplace_back(rows_name, rows);
  return record;
}

// Predicts the test file, and saves metrics where it has labels.
void predict(Trainer& trainer, TaskSetup& task, const std::string& output_dir) {
  const Predictions predictions = trainer.predict(*task.test);
  Metrics metrics;
  if (predictions.loss) metrics.emplace_back("predict_loss", *predictions.loss);
  for (const auto& [name, value] : task.write_predictions(predictions, output_dir))
    metrics.emplace_back("predict_" + name, value);
  if (!metrics.empty())
    save_metrics(output_dir, "predict", record_of(metrics, trainer.state(), "predict_samples", task.test->rows));
}

int train(const std::vector<std::string>& words) {
  TrainArguments arguments = parse_train_arguments(words);
  if (arguments.help) {
    std::fputs(train_help().c_str(), stdout);
    return 0;
  }
  for (const std::string& note : arguments.notes) log(LogLevel::kInfo, note);
  TrainingArguments& training = arguments.training;
  const ScriptArguments& script = arguments.script;
  DeviceOptions device{.device = script.device.value_or(""), .mode = script.mode == "eager" ? "eager" : "lazy"};
  device.apply();
  if (script.model_name_or_path.empty())
    fail(ErrorKind::kUsage, "--model_name_or_path is missing: a directory, or a model's id");
  if (script.overfit_batch) return overfit(arguments);
  if (!training.do_train && !training.do_eval && !training.do_predict) {
    training.do_train = true;
    training.do_eval = script.validation_file.has_value();
    training.do_predict = script.test_file.has_value();
  }

  TaskSetup task = prepare_task(arguments);
  if (training.do_predict && (!task.test || !task.write_predictions))
    fail(ErrorKind::kUsage, "--do_predict: {}",
         task.test ? "this task has no predictions to write" : "expected a --test_file of text, found none");
  Trainer trainer(std::move(task.model), training);
  const int64_t train_rows = task.train ? task.train->rows : 0, eval_rows = task.validation ? task.validation->rows : 0;
  configure_trainer(trainer, task);
  if (script.early_stopping_patience)
    trainer.set_early_stopping(*script.early_stopping_patience, script.early_stopping_threshold);
  if (script.json) trainer.set_step_reports(print_step);
  else trainer.add_callback(std::make_shared<ShowProgress>());

  std::filesystem::create_directories(training.output_dir);
  if (training.do_train) {
    const Metrics metrics = trainer.train(training.resume_from_checkpoint);
    trainer.save_model();
    save_metrics(training.output_dir, "train", record_of(metrics, trainer.state(), "train_samples", train_rows));
    trainer.state().save(std::filesystem::path(training.output_dir) / "trainer_state.json");
  }
  if (training.do_eval) {
    Metrics metrics = trainer.evaluate();
    if (task.complete_evaluation) task.complete_evaluation(metrics);
    save_metrics(training.output_dir, "eval", record_of(metrics, trainer.state(), "eval_samples", eval_rows));
    if (training.do_train) trainer.state().save(std::filesystem::path(training.output_dir) / "trainer_state.json");
    if (script.json) {
      Json line = Json::object();
      for (const auto& [name, value] : metrics) line[name] = value;
      std::puts(dump_json(line).c_str());
    }
  }
  if (training.do_predict) predict(trainer, task, training.output_dir);
  return 0;
}

}  // namespace

Command train_command() {
  Command command{.name = "train", .help = "Fine-tune a model on files (CSV, TSV, JSON lines, CoNLL, text)"};
  command.run_words = train;
  return command;
}

}  // namespace transom
