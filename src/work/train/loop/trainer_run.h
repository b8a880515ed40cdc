// SPDX-License-Identifier: Apache-2.0
// The state of a training run, and what happens between its updates: logging, evaluating, saving, ending.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "transom/trainer.h"
#include "work/train/files/sharded_saver.h"
#include "work/train/files/tensorboard.h"
#include "work/train/files/trainer_state.h"
#include "work/train/log/loss_log.h"
#include "work/train/loop/evaluation.h"
#include "work/train/loop/memory_metrics.h"
#include "work/train/loop/schedules.h"
#include "work/train/loop/trainer_control.h"
#include "work/train/step/train_step.h"

namespace transom {

struct Trainer::Run {
  struct Course;  // one call of train()

  Run(std::shared_ptr<Model> m, TrainingArguments a);

  std::shared_ptr<Model> model;
  TrainingArguments arguments;
  MemoryMetrics memory;
  TrainStep step;
  TrainerState state;
  std::unique_ptr<Schedule> schedule;
  std::optional<TrainingData> train_data, eval_data;
  std::function<Metrics(const Predictions&)> compute_metrics;
  OutputFilter preprocess_outputs, predictor;
  std::vector<std::shared_ptr<TrainerCallback>> callbacks;
  std::optional<EarlyStopping> early_stopping;
  std::function<void(const StepReport&)> report;
  std::function<void(const std::string&)> save_hook;
  std::unique_ptr<TensorBoard> board;
  std::unique_ptr<ShardedSaver> saver;

  LossLog losses;
  double last_rate = 0;
  int64_t steps_of_this_call = 0;
  bool stop = false, training = false;
  std::optional<std::string> last_checkpoint, interrupted;  // directories
  int64_t tokens_before = 0;                                // that a resumed run had seen
  int64_t tokens_learnt = 0;                                // without padding; counted where logs_tokens()
  std::chrono::steady_clock::time_point begin;
  double overhead_seconds = 0;  // logging, evaluating, saving

  void tell(void (TrainerCallback::*event)(const TrainingArguments&, const TrainerState&));
  // What the callbacks of any process ask for at this update.
  struct Requests {
    bool log = false, evaluate = false, save = false, pause = false, interrupt = false, stop = false;
  };
  Requests requests;
  void ask_callbacks();  // sets `requests`, the same in all processes
  // With what the callbacks want besides.
  TrainerControl asked_for(TrainerControl decisions);
  // Stands still while a callback asks for it, and saves meanwhile; returns at once where the run is to end.
  void wait_while_paused();

  // Appends to the log history and tells the callbacks.
  void log(LogRecord record);
  // The mean loss, the last norm and the rate since the record before.
  void log_training();
  // Appends means of what the objective measures, and the tokens so far; nothing where nothing was measured.
  void add_measures(LogRecord& record, const std::vector<std::optional<double>>& means,
                    const std::string& prefix = "") const;
  // Appends what the objective measured on the host.
  void add_numbers(LogRecord& record, const std::string& prefix = "");
  bool logs_tokens() const;  // as a measure

  // Batches of a device that all processes have at once.
  int64_t parts_of_batch() const { return step.batch_ranks() * step.devices_of_batch(); }
  // Rows that all processes evaluate at once.
  int64_t all_eval_rows() const { return arguments.per_device_eval_batch_size * parts_of_batch(); }

  // Evaluations so far that came before each epoch up to this one.
  std::vector<int64_t> evaluations_before(int64_t epoch, int64_t updates_per_epoch) const;

  Predictions predict(const TrainingData& data, bool loss_only, bool drop_last = false);

  // Counts the tokens of a batch, or the values that a model without tokens takes.
  // See Objective::complete_batches.
  void complete(std::vector<NamedTensors>& micro_batches, int64_t first);
  void count_tokens(const Batch& batch);

  LogRecord evaluate(const std::string& prefix);

  void save_model(const fs::path& directory);        // by all processes
  void save_whole_model(const fs::path& directory);  // by rank 0, which has all parameters
  // Those beyond save_total_limit, but for the best.
  void remove_old_checkpoints(const std::optional<std::string>& best_checkpoint);
  // Written beside its name and renamed, and renamed before it is removed, so that a killed run never leaves half a
  // checkpoint under a checkpoint's name.
  void write_checkpoint(bool only_model);
  // Of a sharded run, unless its arguments ask for whole checkpoints: each process writes its parts, beside what the
  // run does next.
  bool saves_parts();
  void write_parts(bool only_model);
  void finish_saving();  // by all processes
  // The newest checkpoint of the output directory that all processes see whole.
  std::optional<std::string> checkpoint_of_all() const;
  // The same, with the state of callbacks, which are told.
  void save_checkpoint(bool only_model);

  // Whether a callback of any process ends the run here. Several processes answer by what they told each other last, so
  // that all end at the same update.
  bool is_interrupted();

  // Ends the run with a checkpoint to resume from, whatever save_strategy and save_only_model say.
  void interrupt();

  // Logs, evaluates, saves and stops as decided; carry_out() counts the time of it as `overhead_seconds`.
  void carry_out(TrainerControl decisions);
  void apply_decisions(TrainerControl decisions);

  void update(const std::vector<NamedTensors>& batches);
  // Ends the run, or warns where logging_nan_inf_filter asks to go on and the weights are finite.
  void report_non_finite_update(const StepReport& update);
};

double seconds_since(std::chrono::steady_clock::time_point begin);
// The entries of a record that are numbers.
Metrics numbers_of(const LogRecord& record);
// Rank 0 alone writes; the others wait where they read what it wrote.
bool is_main();
void wait_for_main();

}  // namespace transom
