// SPDX-License-Identifier: Apache-2.0
// The state of a run as Transformers' TrainerState keeps it in trainer_state.json: either program reads the other's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "transom/training_arguments.h"

namespace transom {

using LogValue = std::variant<int64_t, double, std::string>;
// One record of the log, or the metrics of an evaluation, in the order in which they were made.
using LogRecord = std::vector<std::pair<std::string, LogValue>>;

// A number of the record by its name, if it has one.
std::optional<double> find_number(const LogRecord& record, std::string_view name);
// As one line of JSON.
std::string to_json(const LogRecord& record);

struct TrainerState {
  double epoch = 0;  // a fraction within an epoch
  int64_t global_step = 0;
  int64_t max_steps = 0;
  double logging_steps = 500, eval_steps = 500, save_steps = 500;
  std::optional<int64_t> train_batch_size;
  int64_t num_train_epochs = 0;
  int64_t num_input_tokens_seen = 0;
  double total_flos = 0;
  std::vector<LogRecord> log_history;
  std::optional<double> best_metric;
  std::optional<int64_t> best_global_step;
  std::optional<std::string> best_model_checkpoint;
  bool is_local_process_zero = true, is_world_process_zero = true, is_hyper_param_search = false;
  std::optional<std::string> trial_name;
  JsonText trial_params;
  JsonText stateful_callbacks;  // by the name of the callback

  // Steps of logging, evaluation and saving as numbers of updates, from arguments that may be ratios of `max_steps`.
  void compute_steps(const TrainingArguments& arguments, int64_t total_steps);
  // Adds the epoch and the step to the record and appends it to the history. Gives the record as it now is.
  const LogRecord& log(LogRecord record);
  // Takes the metrics of an evaluation (names with "eval_"); whether the metric for the best model is the best so far.
  bool update_best(const LogRecord& metrics, const TrainingArguments& arguments);

  std::string to_json() const;
  static TrainerState from_json(std::string_view text, std::string_view where);
  void save(const std::filesystem::path& path) const;
  static TrainerState load(const std::filesystem::path& path);
};

}  // namespace transom
