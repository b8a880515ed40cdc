// SPDX-License-Identifier: Apache-2.0
#include "work/train/loop/trainer_run.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/terminal/log.h"
#include "runtime/distributed/process_group.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/ops.h"
#include "work/train/files/checkpoints.h"
#include "work/train/files/trainer_checkpoint.h"
#include "work/train/loop/model_inputs.h"
#include "work/train/loop/parameter_check.h"
#include "work/train/loop/run_checks.h"

namespace transom {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Metrics numbers_of(const LogRecord& record) {
  Metrics metrics;
  for (const auto& [name, value] : record)
    if (const auto number = find_number(record, name)) metrics.emplace_back(name, *number);
  return metrics;
}

bool is_main() { return process_rank() == 0; }
void wait_for_main() {
  if (ProcessGroup* group = process_group()) group->barrier();
}

Trainer::Run::Run(std::shared_ptr<Model> m, TrainingArguments a)
    : model(std::move(m)), arguments(std::move(a)), memory(arguments.skip_memory_metrics), step(*model, arguments) {
  memory.end("init");
  step.refuse_updates_that_are_not_finite(/*or_loss=*/!arguments.logging_nan_inf_filter);
}

void Trainer::Run::tell(void (TrainerCallback::*event)(const TrainingArguments&, const TrainerState&)) {
  for (const auto& callback : callbacks) ((*callback).*event)(arguments, state);
}

void Trainer::Run::ask_callbacks() {
  std::string asked;  // a letter for each request, which processes send each other
  for (const auto& callback : callbacks) {
    if (callback->should_log()) asked += 'l';
    if (callback->should_evaluate()) asked += 'e';
    if (callback->should_save()) asked += 's';
    if (callback->should_pause()) asked += 'p';
    if (callback->should_interrupt()) asked += 'i';
    if (callback->should_stop()) asked += 'x';
  }
  if (ProcessGroup* group = process_group()) {
    const std::vector<std::string> all = group->all_gather(asked);
    asked.clear();
    for (const std::string& each : all) asked += each;
  }
  const auto has = [&](char letter) { return asked.find(letter) != asked.npos; };
  requests = {has('l'), has('e'), has('s'), has('p'), has('i'), has('x')};
}

TrainerControl Trainer::Run::asked_for(TrainerControl decisions) {
  ask_callbacks();
  decisions.log |= requests.log;
  decisions.evaluate |= requests.evaluate;
  decisions.save |= requests.save;
  return decisions;
}

void Trainer::Run::wait_while_paused() {
  if (!requests.pause || stop) return;
  const auto begin_of_pause = std::chrono::steady_clock::now();
  losses.read();
  while (requests.pause && !requests.interrupt && !requests.stop && !stop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ask_callbacks();
    if (requests.save) {
      apply_decisions({.save = true});
      finish_saving();  // who pauses hears whether it was saved
    }
  }
  stop |= requests.stop;
  overhead_seconds += seconds_since(begin_of_pause);
}

void Trainer::Run::log(LogRecord record) {
  if (arguments.include_num_input_tokens_seen != "no")
    record.emplace_back("num_input_tokens_seen", state.num_input_tokens_seen);
  const LogRecord& full = state.log(std::move(record));
  if (board) board->log(full, state.global_step);
  const Metrics metrics = numbers_of(full);
  for (const auto& callback : callbacks) callback->on_log(arguments, state, metrics);
}

void Trainer::Run::log_training() {
  if (state.global_step == losses.recorded()) return;
  LogRecord record;
  // What is not a number is left out, as logging_nan_inf_filter asks.
  if (const auto mean = losses.mean_loss(state.global_step)) record.emplace_back("loss", *mean);
  if (std::isfinite(losses.last_norm())) record.emplace_back("grad_norm", losses.last_norm());
  record.emplace_back("learning_rate", last_rate);
  add_measures(record, losses.mean_measures());
  add_numbers(record);
  if (const double seconds = seconds_since(begin); arguments.include_num_input_tokens_seen != "no" && seconds > 0) {
    record.emplace_back("train_runtime", seconds);
    record.emplace_back("train_tokens_per_second",
                        static_cast<double>(state.num_input_tokens_seen - tokens_before) / seconds);
  }
  log(std::move(record));
  losses.next_record(state.global_step);
}

bool Trainer::Run::logs_tokens() const {
  const BatchMeasures* measures = step.objective().measures();
  return measures && measures->tokens;
}

void Trainer::Run::add_measures(LogRecord& record, const std::vector<std::optional<double>>& means,
                                const std::string& prefix) const {
  const BatchMeasures* measures = step.objective().measures();
  if (!measures || means.empty()) return;
  for (size_t i = 0; i < means.size(); ++i)
    if (means[i]) record.emplace_back(prefix + measures->names.at(i), *means[i]);
  if (measures->tokens) record.emplace_back(prefix + "num_tokens", static_cast<double>(tokens_learnt));
}

void Trainer::Run::add_numbers(LogRecord& record, const std::string& prefix) {
  for (auto& [name, value] : step.objective().take_numbers(prefix.empty())) record.emplace_back(prefix + name, value);
}

std::vector<int64_t> Trainer::Run::evaluations_before(int64_t epoch, int64_t updates_per_epoch) const {
  std::vector<int64_t> counts(static_cast<size_t>(epoch) + 1, 0);
  for (const LogRecord& record : state.log_history) {
    const std::optional<double> at = find_number(record, "step");
    if (!at || !find_number(record, "eval_runtime")) continue;
    for (int64_t e = 0; e <= epoch; ++e)
      counts[static_cast<size_t>(e)] += *at <= static_cast<double>(e * updates_per_epoch);
  }
  return counts;
}

namespace {

// While it lives, the model computes in this type what it would compute in another.
class ComputedIn {
 public:
  ComputedIn(Model& model, DType dtype) : model_(model), before_(model.computing()) {
    Computing now = before_;
    now.dtype = dtype;
    model.set_computing(now);
  }
  ~ComputedIn() { model_.set_computing(before_); }
  ComputedIn(const ComputedIn&) = delete;
  ComputedIn& operator=(const ComputedIn&) = delete;

 private:
  Model& model_;
  Computing before_;
};

}  // namespace

Predictions Trainer::Run::predict(const TrainingData& data, bool loss_only, bool drop_last) {
  // As Trainer has it, while it trains the model keeps its precision.
  const ModeScope how_run(arguments.inference_mode ? mode_named(*arguments.inference_mode) : mode());
  const bool half = arguments.bf16_full_eval && !training;
  const ComputedIn evaluated(*model, half ? DType::kBFloat16 : model->computing().dtype);
  const OutputFilter nothing = [](const NamedTensors&) { return NamedTensors(); };
  EvaluationBatches how{
      .size = arguments.per_device_eval_batch_size,
      .drop_last = drop_last,
      .skips_unfinite = arguments.logging_nan_inf_filter,
      .padding = padding_of_batches(arguments, *model, step.sharding() != nullptr, step.objective().reads_padding())};
  if (arguments.train_sampling_strategy == "group_by_length") how.grouping_seed = arguments.sampling_seed();
  // A predictor asks the model itself.
  const WholeValues whole(predictor && !loss_only ? step.sharding() : nullptr, *model, nullptr,
                          /*everywhere=*/true);
  return evaluate_model(step, data, how, loss_only ? nothing : preprocess_outputs,
                        loss_only ? OutputFilter() : predictor);
}

void Trainer::Run::complete(std::vector<NamedTensors>& micro_batches, int64_t first) {
  Objective& objective = step.objective();
  const bool whole = objective.asks_whole_weights(first, static_cast<int64_t>(micro_batches.size()));
  const WholeValues values(whole ? step.sharding() : nullptr, *model, nullptr, /*everywhere=*/true);
  objective.complete_batches(*model, micro_batches, first);
}

namespace {

// All tokens of a batch, or the values that a model without tokens takes.
int64_t inputs_of(const Batch& batch) {
  for (const char* name : {"input_ids", "input_values", "input_features", "pixel_values"}) {
    const auto ids = batch.sequences.find(name);
    const auto values = batch.arrays.find(name);
    const size_t count = ids != batch.sequences.end()   ? ids->second.values.size()
                         : values != batch.arrays.end() ? values->second.values.size()
                                                        : 0;
    if (count > 0) return static_cast<int64_t>(count);
  }
  return 0;
}

}  // namespace

void Trainer::Run::count_tokens(const Batch& batch) {
  const bool learnt = logs_tokens(), seen = arguments.include_num_input_tokens_seen != "no";
  if (!learnt && !seen) return;
  const auto of_all = [&](int64_t count) {  // Trainer's and TRL's counts are those of all processes
    ProcessGroup* group = step.batch_ranks() == 1 ? nullptr : process_group();
    if (!group) return count;
    return static_cast<int64_t>(group->sum(static_cast<double>(count))) * step.batch_ranks() / group->size();
  };
  const auto mask = batch.sequences.find("attention_mask");
  const int64_t whole = inputs_of(batch);
  const int64_t real = mask == batch.sequences.end()
                           ? whole
                           : std::accumulate(mask->second.values.begin(), mask->second.values.end(), int64_t{0});
  const bool padding_too = arguments.include_num_input_tokens_seen == "all";
  const int64_t all_real = learnt || !padding_too ? of_all(real) : 0;
  tokens_learnt += all_real;
  state.num_input_tokens_seen += padding_too ? of_all(whole) : all_real;
}

LogRecord Trainer::Run::evaluate(const std::string& prefix) {
  if (!eval_data) fail(ErrorKind::kUsage, "there is no evaluation data: give a validation_file");
  memory.begin("eval");
  const auto begin = std::chrono::steady_clock::now();
  const bool loss_only = arguments.prediction_loss_only;
  const Predictions predictions = predict(*eval_data, loss_only, arguments.dataloader_drop_last);
  LogRecord record;
  if (predictions.loss) record.emplace_back(prefix + "_loss", *predictions.loss);
  if (compute_metrics && !loss_only && predictions.rows > 0)
    for (const auto& [name, value] : compute_metrics(predictions))
      record.emplace_back(name.starts_with(prefix + "_") ? name : prefix + "_" + name, value);
  add_measures(record, predictions.measures, prefix + "_");
  add_numbers(record, prefix + "_");
  for (const auto& item : speed_metrics(prefix, seconds_since(begin), eval_data->rows,
                                        (eval_data->rows + all_eval_rows() - 1) / all_eval_rows()))
    record.push_back(item);
  log(record);
  const Metrics metrics = numbers_of(record);
  for (const auto& callback : callbacks) callback->on_evaluate(arguments, state, metrics);
  memory.end("eval", &record);
  return record;
}

void Trainer::Run::save_model(const fs::path& directory) {
  const WholeValues whole(step.sharding(), *model, nullptr, /*everywhere=*/false);
  if (is_main()) save_whole_model(directory);
}

void Trainer::Run::save_whole_model(const fs::path& directory) {
  if (const auto name = broken_weight(*model))
    fail("the weights are not finite after step {} ({}) and are not saved; {}", state.global_step, *name,
         way_out_of_nan(last_checkpoint));
  model->save_pretrained(directory.string());
  write_file(directory / "training_args.json", arguments.to_json());
  if (save_hook) save_hook(directory.string());
}

void Trainer::Run::remove_old_checkpoints(const std::optional<std::string>& best_checkpoint) {
  if (!is_main()) return;
  const fs::path folder(arguments.output_dir);
  const std::optional<std::string> best =
      best_checkpoint ? std::optional(fs::path(*best_checkpoint).filename().string()) : std::nullopt;
  for (const std::string& old : checkpoints_to_delete(checkpoints_in(folder), arguments.save_total_limit, best))
    remove_directory(folder / old);
}

void Trainer::Run::write_checkpoint(bool only_model) {
  const WholeValues whole(step.sharding(), *model, &step.optimizer(), /*everywhere=*/false);
  if (!is_main()) return;
  const fs::path folder(arguments.output_dir), destination = folder / checkpoint_name(state.global_step);
  const fs::path temporary = folder / (std::string(kUnfinishedPrefix) + checkpoint_name(state.global_step));
  remove_tree(temporary);
  try {
    make_directories(temporary);
    save_whole_model(temporary);
    save_run(temporary, step, *schedule, state, only_model);
    step.objective().save(temporary);
    replace_directory(temporary, destination);
  } catch (...) {  // a full disk, a device that is lost while its weights are copied
    std::error_code none;
    fs::remove_all(temporary, none);
    throw;
  }
  remove_old_checkpoints(state.best_model_checkpoint);
}

void Trainer::Run::save_checkpoint(bool only_model) {
  if (early_stopping) state.stateful_callbacks = early_stopping->state();
  if (saves_parts()) write_parts(only_model);
  else write_checkpoint(only_model);
  last_checkpoint = (fs::path(arguments.output_dir) / checkpoint_name(state.global_step)).string();
  for (const auto& callback : callbacks) callback->on_save(arguments, state);
}

bool Trainer::Run::is_interrupted() {
  if (process_group()) return requests.interrupt;
  bool asked = requests.interrupt;
  for (const auto& callback : callbacks) asked |= callback->should_interrupt();
  return asked;
}

void Trainer::Run::interrupt() {
  losses.read();
  const std::string name = checkpoint_name(state.global_step);
  const bool is_saved = last_checkpoint && fs::path(*last_checkpoint).filename() == name && !arguments.save_only_model;
  if (!is_saved) save_checkpoint(false);
  finish_saving();
  interrupted = last_checkpoint;
  stop = true;
}

void Trainer::Run::carry_out(TrainerControl decisions) {
  const auto begin = std::chrono::steady_clock::now();
  apply_decisions(decisions);
  overhead_seconds += seconds_since(begin);
}

void Trainer::Run::apply_decisions(TrainerControl decisions) {
  if (decisions.log || decisions.evaluate || decisions.save || decisions.stop) losses.read();
  if (decisions.log) log_training();
  if (decisions.evaluate) {
    const std::optional<double> before = state.best_metric;
    const LogRecord metrics = evaluate("eval");
    const std::optional<double> metric = find_number(metrics, best_metric_name(arguments));
    if (metric) schedule->observe(*metric);
    const bool better = state.update_best(metrics, arguments);
    if (better && arguments.save_strategy == "best") decisions.save = true;
    if (early_stopping && metric)
      stop |= early_stopping->observe(*metric, before, arguments.greater_is_better.value_or(false));
  }
  if (decisions.save) {
    if (state.best_global_step == state.global_step)
      state.best_model_checkpoint = (fs::path(arguments.output_dir) / checkpoint_name(state.global_step)).string();
    save_checkpoint(arguments.save_only_model);
  }
  stop |= decisions.stop;
  bool asked = requests.stop;
  for (const auto& callback : callbacks) asked |= callback->should_stop();
  // Of several processes all stop where one is asked to: exchanged with the requests, and again after what callbacks
  // were told here.
  if (ProcessGroup* group = process_group())
    asked = decisions.log || decisions.evaluate || decisions.save ? group->sum(asked ? 1 : 0) > 0 : requests.stop;
  stop |= asked;
}

void Trainer::Run::update(const std::vector<NamedTensors>& batches) {
  if (saver) saver->check();
  last_rate = schedule->learning_rate();
  const TrainStep::Result result = step(batches, last_rate, state.global_step);
  schedule->step();
  ++state.global_step;
  step.objective().updated(*model, state.global_step);
  ++steps_of_this_call;
  losses.add(result, state.global_step, last_rate);
  if (ProcessGroup* group = process_group(); group && steps_of_this_call == 1) group->expect_equal_collectives();
  if (arguments.parameter_check_steps > 0 && state.global_step % arguments.parameter_check_steps == 0)
    expect_equal_copies(*model, step.sharding(), state.global_step);
}

void Trainer::Run::report_non_finite_update(const StepReport& update) {
  // The sign of a NaN says nothing.
  const auto shown = [](double value) { return std::isnan(value) ? std::string("nan") : fmt::format("{}", value); };
  const std::string what = fmt::format("the loss is {} and the gradient norm {} at step {}", shown(update.loss),
                                       shown(update.gradient_norm), update.step);
  if (step.refuses(update.loss, update.gradient_norm)) {
    const int64_t refused = state.global_step - update.step + 1;  // it and what came behind it before it was read
    step.take_back(refused);
    state.global_step -= refused;
    fail("{}; the weights are those of before it; {}", what, way_out_of_nan(last_checkpoint));
  }
  const WholeValues whole(step.sharding(), *model, nullptr, /*everywhere=*/true);
  const auto broken = broken_weight(*model);
  if (broken)
    fail("{}, which leaves weights that are not finite ({}); {}", what, *broken, way_out_of_nan(last_checkpoint));
  if (!arguments.logging_nan_inf_filter) fail("{}; {}", what, way_out_of_nan(last_checkpoint));
  transom::log(LogLevel::kWarning, what + "; a lower learning rate or max_grad_norm may help");
}

}  // namespace transom
