// SPDX-License-Identifier: Apache-2.0
// The loop of a run: epochs, updates, and what happens between them.
#include "transom/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/directories.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/prefetcher.h"
#include "data/padding.h"
#include "device/static_shapes.h"
#include "distributed/process_group.h"
#include "tensor/mode_scope.h"
#include "train/files/checkpoints.h"
#include "train/files/tensorboard.h"
#include "train/files/trainer_checkpoint.h"
#include "train/files/trainer_state.h"
#include "train/loop/evaluation.h"
#include "train/loop/loss_log.h"
#include "train/loop/model_inputs.h"
#include "train/loop/run_checks.h"
#include "train/loop/samplers.h"
#include "train/loop/train_step.h"
#include "train/loop/trainer_control.h"
#include "transom/ops.h"

namespace transom {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Metrics numbers_of(const LogRecord& record) {
  Metrics metrics;
  for (const auto& [name, value] : record)
    if (const auto number = find_number(record, name)) metrics.emplace_back(name, *number);
  return metrics;
}

// Rank 0 alone writes; the others wait where they read what it wrote.
bool is_main() { return process_rank() == 0; }
void wait_for_main() {
  if (ProcessGroup* group = process_group()) group->barrier();
}

}  // namespace

struct Trainer::Run {
  Run(std::shared_ptr<Model> m, TrainingArguments a)
      : model(std::move(m)), arguments(std::move(a)), step(*model, arguments) {
    step.refuse_updates_that_are_not_finite(/*or_loss=*/!arguments.logging_nan_inf_filter);
  }

  std::shared_ptr<Model> model;
  TrainingArguments arguments;
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

  LossLog losses;
  double last_rate = 0;
  int64_t steps_of_this_call = 0;
  bool stop = false, training = false;
  bool refused = false;                                     // the last update was not applied, since it is not finite
  std::optional<std::string> last_checkpoint, interrupted;  // directories
  int64_t tokens_before = 0;                                // that a resumed run had seen
  std::chrono::steady_clock::time_point begin;
  double aside = 0;  // seconds of what was no training: logging, evaluating, saving

  void tell(void (TrainerCallback::*event)(const TrainingArguments&, const TrainerState&)) {
    for (const auto& callback : callbacks) ((*callback).*event)(arguments, state);
  }

  // With what the callbacks want besides.
  TrainerControl asked_for(TrainerControl decisions) {
    for (const auto& callback : callbacks) {
      decisions.log |= callback->should_log();
      decisions.evaluate |= callback->should_evaluate();
      decisions.save |= callback->should_save();
    }
    return decisions;
  }

  void log(LogRecord record) {
    if (arguments.include_num_input_tokens_seen != "no")
      record.emplace_back("num_input_tokens_seen", state.num_input_tokens_seen);
    const LogRecord& full = state.log(std::move(record));
    if (board) board->log(full, state.global_step);
    const Metrics metrics = numbers_of(full);
    for (const auto& callback : callbacks) callback->on_log(arguments, state, metrics);
  }

  void log_training() {
    if (state.global_step == losses.recorded()) return;
    LogRecord record;
    // What is not a number is left out, as logging_nan_inf_filter asks.
    if (const auto mean = losses.mean_loss(state.global_step)) record.emplace_back("loss", *mean);
    if (std::isfinite(losses.last_norm())) record.emplace_back("grad_norm", losses.last_norm());
    record.emplace_back("learning_rate", last_rate);
    if (const double seconds = seconds_since(begin); arguments.include_num_input_tokens_seen != "no" && seconds > 0) {
      record.emplace_back("train_runtime", seconds);
      record.emplace_back("train_tokens_per_second",
                          static_cast<double>(state.num_input_tokens_seen - tokens_before) / seconds);
    }
    log(std::move(record));
    losses.next_record(state.global_step);
  }

  // Batches of a device that all processes have at once.
  int64_t parts_of_batch() const { return step.batch_ranks() * step.devices_of_batch(); }
  // Rows that all processes evaluate at once.
  int64_t all_eval_rows() const { return arguments.per_device_eval_batch_size * parts_of_batch(); }

  // Evaluations so far that came before each epoch up to this one.
  std::vector<int64_t> evaluations_before(int64_t epoch, int64_t updates_per_epoch) const {
    std::vector<int64_t> counts(static_cast<size_t>(epoch) + 1, 0);
    for (const LogRecord& record : state.log_history) {
      const std::optional<double> at = find_number(record, "step");
      if (!at || !find_number(record, "eval_runtime")) continue;
      for (int64_t e = 0; e <= epoch; ++e)
        counts[static_cast<size_t>(e)] += *at <= static_cast<double>(e * updates_per_epoch);
    }
    return counts;
  }

  Predictions predict(const TrainingData& data, bool loss_only, bool drop_last = false) {
    // As Trainer has it, while it trains the model keeps its precision.
    const ModeScope graphs(arguments.use_hpu_graphs_for_inference ? Mode::kGraph : mode());
    std::optional<Autocast> half;
    if (arguments.bf16_full_eval && !training) half.emplace(DType::kBFloat16);
    const OutputFilter nothing = [](const NamedTensors&) { return NamedTensors(); };
    EvaluationBatches how{.size = arguments.per_device_eval_batch_size, .drop_last = drop_last};
    if (arguments.train_sampling_strategy == "group_by_length") how.grouping_seed = arguments.sampling_seed();
    // A predictor asks the model itself.
    const WholeValues whole(predictor && !loss_only ? step.sharding() : nullptr, *model, nullptr, /*everywhere=*/true);
    return evaluate_model(step, data, how, loss_only ? nothing : preprocess_outputs,
                          loss_only ? OutputFilter() : predictor);
  }

  // Counts the tokens of a batch, or the values that a model without tokens takes.
  void count_tokens(const NamedTensors& inputs) {
    if (arguments.include_num_input_tokens_seen == "no") return;
    const Tensor mask = inputs.find("attention_mask");
    if (arguments.include_num_input_tokens_seen == "non_padding" && mask.defined()) {
      for (const int64_t one : mask.to_vector<int64_t>()) state.num_input_tokens_seen += one;
      return;
    }
    for (const char* name : {"input_ids", "input_values", "input_features", "pixel_values"})
      if (const Tensor values = inputs.find(name); values.defined()) {
        state.num_input_tokens_seen += values.size();
        return;
      }
  }

  LogRecord evaluate(const std::string& prefix) {
    if (!eval_data) fail(ErrorKind::kUsage, "there is no evaluation data: give a validation_file");
    const auto begin = std::chrono::steady_clock::now();
    const bool loss_only = arguments.prediction_loss_only;
    const Predictions predictions = predict(*eval_data, loss_only, arguments.dataloader_drop_last);
    LogRecord record;
    if (predictions.loss) record.emplace_back(prefix + "_loss", *predictions.loss);
    if (compute_metrics && !loss_only && predictions.rows > 0)
      for (const auto& [name, value] : compute_metrics(predictions))
        record.emplace_back(name.starts_with(prefix + "_") ? name : prefix + "_" + name, value);
    for (const auto& item : speed_metrics(prefix, seconds_since(begin), eval_data->rows,
                                          (eval_data->rows + all_eval_rows() - 1) / all_eval_rows()))
      record.push_back(item);
    log(record);
    const Metrics metrics = numbers_of(record);
    for (const auto& callback : callbacks) callback->on_evaluate(arguments, state, metrics);
    return record;
  }

  void save_model(const fs::path& directory) {
    const WholeValues whole(step.sharding(), *model, nullptr, /*everywhere=*/false);
    if (is_main()) save_whole_model(directory);
  }
  void save_whole_model(const fs::path& directory) {
    if (const auto name = broken_weight(*model))
      fail("the weights are not finite after step {} ({}) and are not saved; {}", state.global_step, *name,
           way_out_of_nan(last_checkpoint));
    model->save_pretrained(directory.string());
    write_file(directory / "training_args.json", arguments.to_json());
    if (save_hook) save_hook(directory.string());
  }

  void remove_old_checkpoints() {
    if (!is_main()) return;
    const fs::path folder(arguments.output_dir);
    const std::optional<std::string> best =
        state.best_model_checkpoint ? std::optional(fs::path(*state.best_model_checkpoint).filename().string())
                                    : std::nullopt;
    for (const std::string& old : checkpoints_to_delete(checkpoints_in(folder), arguments.save_total_limit, best))
      remove_directory(folder / old);
  }

  // Written beside its name and renamed, and renamed before it is removed, so that a killed run never leaves half a
  // checkpoint under a checkpoint's name.
  void write_checkpoint(bool only_model) {
    const WholeValues whole(step.sharding(), *model, &step.optimizer(), /*everywhere=*/false);
    if (!is_main()) return;
    const fs::path folder(arguments.output_dir), destination = folder / checkpoint_name(state.global_step);
    const fs::path temporary = folder / (std::string(kUnfinishedPrefix) + checkpoint_name(state.global_step));
    remove_tree(temporary);
    try {
      make_directories(temporary);
      save_whole_model(temporary);
      save_run(temporary, step, *schedule, state, only_model);
      replace_directory(temporary, destination);
    } catch (...) {  // a full disk, a device that is lost while its weights are copied
      std::error_code none;
      fs::remove_all(temporary, none);
      throw;
    }
    remove_old_checkpoints();
  }

  void save_checkpoint(bool only_model) {
    if (early_stopping) state.stateful_callbacks = early_stopping->state();
    write_checkpoint(only_model);
    last_checkpoint = (fs::path(arguments.output_dir) / checkpoint_name(state.global_step)).string();
    for (const auto& callback : callbacks) callback->on_save(arguments, state);
  }

  // Asks the callbacks of all processes, which then end at the same update.
  bool is_interrupted() {
    bool asked = false;
    for (const auto& callback : callbacks) asked |= callback->should_interrupt();
    if (ProcessGroup* group = process_group()) {
      const std::vector<std::string> all = group->all_gather(asked ? "1" : "");
      asked = std::any_of(all.begin(), all.end(), [](const std::string& each) { return !each.empty(); });
    }
    return asked;
  }

  // Ends the run with a checkpoint to resume from, whatever save_strategy and save_only_model say.
  void interrupt() {
    losses.read();
    const std::string name = checkpoint_name(state.global_step);
    const bool is_saved =
        last_checkpoint && fs::path(*last_checkpoint).filename() == name && !arguments.save_only_model;
    if (!is_saved) save_checkpoint(false);
    interrupted = last_checkpoint;
    stop = true;
  }

  void carry_out(TrainerControl decisions) {
    const auto begin = std::chrono::steady_clock::now();
    carry_out_now(decisions);
    aside += seconds_since(begin);
  }

  void carry_out_now(TrainerControl decisions) {
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
    for (const auto& callback : callbacks) stop |= callback->should_stop();
  }

  void update(const std::vector<NamedTensors>& batches) {
    last_rate = schedule->learning_rate();
    const TrainStep::Result result = step(batches, last_rate, state.global_step);
    refused = !result.applied;
    losses.add(result, state.global_step + 1, last_rate);
    if (refused) losses.read();  // which ends the run
    schedule->step();
    ++state.global_step;
    ++steps_of_this_call;
  }

  void meet_not_finite(const StepReport& update) {
    // The sign of a NaN says nothing.
    const auto shown = [](double value) { return std::isnan(value) ? std::string("nan") : fmt::format("{}", value); };
    const std::string what = fmt::format("the loss is {} and the gradient norm {} at step {}", shown(update.loss),
                                         shown(update.gradient_norm), update.step);
    if (refused && update.step == state.global_step + 1)
      fail("{}; the weights are those of before it; {}", what, way_out_of_nan(last_checkpoint));
    const WholeValues whole(step.sharding(), *model, nullptr, /*everywhere=*/true);
    const auto broken = broken_weight(*model);
    if (broken)
      fail("{}, which leaves weights that are not finite ({}); {}", what, *broken, way_out_of_nan(last_checkpoint));
    if (!arguments.logging_nan_inf_filter) fail("{}; {}", what, way_out_of_nan(last_checkpoint));
    transom::log(LogLevel::kWarning, what + "; a lower learning rate or max_grad_norm may help");
  }
};

Trainer::Trainer(std::shared_ptr<Model> model, TrainingArguments arguments)
    : run_(std::make_unique<Run>(std::move(model), std::move(arguments))) {}
Trainer::~Trainer() = default;

void Trainer::set_train_data(TrainingData data) { run_->train_data = std::move(data); }
void Trainer::set_eval_data(TrainingData data) { run_->eval_data = std::move(data); }
void Trainer::set_compute_metrics(std::function<Metrics(const Predictions&)> compute_metrics) {
  run_->compute_metrics = std::move(compute_metrics);
}
void Trainer::set_preprocess_outputs(std::function<NamedTensors(const NamedTensors&)> preprocess) {
  run_->preprocess_outputs = std::move(preprocess);
}
void Trainer::set_predictor(std::function<NamedTensors(const NamedTensors&)> predict) {
  run_->predictor = std::move(predict);
}
void Trainer::add_callback(std::shared_ptr<TrainerCallback> callback) {
  run_->callbacks.push_back(std::move(callback));
}
void Trainer::set_early_stopping(int64_t patience, double threshold) {
  run_->early_stopping.emplace(patience, threshold);
}
void Trainer::set_step_reports(std::function<void(const StepReport&)> report) { run_->report = std::move(report); }
void Trainer::set_save_hook(std::function<void(const std::string&)> hook) { run_->save_hook = std::move(hook); }
Model& Trainer::model() { return *run_->model; }
const TrainerState& Trainer::state() const { return run_->state; }
const std::optional<std::string>& Trainer::interrupted() const { return run_->interrupted; }

void Trainer::save_model(const std::string& directory) {
  run_->save_model(directory.empty() ? run_->arguments.output_dir : directory);
}
Metrics Trainer::evaluate(const std::string& prefix) { return numbers_of(run_->evaluate(prefix)); }
Predictions Trainer::predict(const TrainingData& data) { return run_->predict(data, false); }

Metrics Trainer::train(const std::optional<std::string>& resume_from) {
  Run& run = *run_;
  const TrainingArguments& arguments = run.arguments;
  if (!run.train_data || run.train_data->rows == 0)
    fail("there is nothing to train on: set_train_data was not called, or the data has no rows");
  if (const auto asks = asks_for_evaluation(arguments); asks && !run.eval_data)
    fail(ErrorKind::kUsage, "{}: there is no evaluation data; give a validation_file", *asks);
  const int64_t accumulation = arguments.gradient_accumulation_steps;
  const bool by_length = arguments.train_sampling_strategy == "group_by_length";
  const TrainSampler sampler(run.train_data->rows,
                             {.strategy = arguments.train_sampling_strategy,
                              .seed = by_length ? arguments.seed : arguments.sampling_seed(),
                              .batch_size = arguments.per_device_train_batch_size * run.step.devices_of_batch(),
                              .accumulation = accumulation,
                              .drop_last = arguments.dataloader_drop_last,
                              .ranks = run.step.batch_ranks(),
                              .rank = run.step.batch_rank()},
                             run.train_data->lengths);
  const int64_t batches = sampler.batches_per_epoch();
  if (batches == 0)
    fail("an epoch has no batch: {} rows do not fill a batch of {} and dataloader_drop_last is set",
         run.train_data->rows, arguments.per_device_train_batch_size);
  const Duration duration = duration_of(batches, accumulation, arguments.num_train_epochs, arguments.max_steps);

  run.state = TrainerState();
  run.schedule = make_schedule({.type = arguments.lr_scheduler_type,
                                .settings = arguments.lr_scheduler_kwargs,
                                .learning_rate = arguments.learning_rate,
                                .warmup_steps = arguments.warmup_steps_of(duration.updates),
                                .steps = duration.updates});
  run.last_checkpoint.reset();
  run.interrupted.reset();
  Position position;
  if (resume_from) {
    fs::path directory(*resume_from);
    if (*resume_from == "true" || *resume_from == "True") {
      const auto last = last_whole_checkpoint(arguments.output_dir);
      if (!last)
        fail("resume_from_checkpoint: {} holds no checkpoint; leave the argument out to train from the start",
             arguments.output_dir);
      directory = fs::path(arguments.output_dir) / *last;
    }
    load_run(directory, *run.model, run.step, *run.schedule, run.state);
    for (const auto& parameter : run.model->parameters()) parameter->value.set_requires_grad();
    run.step.take_loaded_values();
    if (run.early_stopping) run.early_stopping->load(run.state.stateful_callbacks);
    run.last_checkpoint = directory.string();
    const Position reached = resume_position(run.state.global_step, batches, accumulation);
    if (!arguments.ignore_data_skip) position = reached;
    compare_epochs(
        directory, run.state,
        static_cast<double>(reached.epoch) + static_cast<double>(reached.batch) / static_cast<double>(batches));
  }
  const bool is_finished = resume_from && run.state.global_step >= duration.updates;
  if (is_finished)
    transom::log(LogLevel::kInfo,
                 fmt::format("nothing left to train: step {} of {}", run.state.global_step, duration.updates));
  run.state.max_steps = duration.updates;
  run.state.num_train_epochs = duration.epochs;
  run.state.train_batch_size = arguments.per_device_train_batch_size;
  run.state.compute_steps(arguments, duration.updates);
  run.losses.begin(
      run.state.global_step, [&run](const StepReport& update) { run.meet_not_finite(update); }, run.report);
  run.steps_of_this_call = 0;
  run.stop = false;
  make_directories(arguments.output_dir);
  if (resume_from) wait_for_main();  // all have read what is removed now
  if (is_main()) remove_unfinished_checkpoints(arguments.output_dir);
  // A killed run may have come to write one, but not to remove another.
  if (resume_from && (*resume_from == "true" || *resume_from == "True")) run.remove_old_checkpoints();
  for (const std::string& target : arguments.report_to)
    if (target == "tensorboard" && is_main())
      run.board = std::make_unique<TensorBoard>(
          arguments.logging_dir.value_or((fs::path(arguments.output_dir) / "runs").string()));

  // Norms over a batch would see rows that only fill it up.
  const bool fills_up = batches > 1 && run.model->buffers().empty() && wants_static_shapes();

  run.begin = std::chrono::steady_clock::now();
  run.tokens_before = run.state.num_input_tokens_seen;
  run.training = true;
  auto counted_from = run.begin;  // throughput_warmup_steps
  run.aside = 0;
  run.tell(&TrainerCallback::on_train_begin);
  if (arguments.eval_on_start && !is_finished) run.evaluate("eval");

  for (int64_t epoch = position.epoch; epoch < duration.epochs && !run.stop && run.state.global_step < duration.updates;
       ++epoch) {
    const Batches order = sampler.epoch(epoch, run.evaluations_before(epoch, duration.updates_per_epoch));
    int64_t batch = epoch == position.epoch ? position.batch : 0;
    run.tell(&TrainerCallback::on_epoch_begin);
    // What is left of the epoch, or of the run, made while the updates before run.
    Prefetcher<Batch> rows(
        std::min(batches - batch, (duration.updates - run.state.global_step) * accumulation),
        [&, first = batch](int64_t i) {
          const int64_t place = first + i;
          // Batches are numbered over all processes.
          const int64_t number = (epoch * batches + place) * run.step.batch_ranks() + run.step.batch_rank();
          Batch made = run.train_data->batch(order[static_cast<size_t>(place)]);
          if (fills_up) fill_up(made, arguments.per_device_train_batch_size * run.step.devices_of_batch());
          if (run.train_data->augment) run.train_data->augment(made, static_cast<uint64_t>(number));
          return made;
        },
        std::max<int64_t>(2, accumulation));
    while (batch < batches && !run.stop && run.state.global_step < duration.updates) {
      std::vector<NamedTensors> micro_batches;
      for (int64_t k = 0; k < accumulation && batch < batches; ++k, ++batch) {
        micro_batches.push_back(to_inputs(rows.next(), *run.model));
        run.count_tokens(micro_batches.back());
      }
      run.tell(&TrainerCallback::on_step_begin);
      run.update(micro_batches);
      if (run.steps_of_this_call == arguments.throughput_warmup_steps)
        counted_from = std::chrono::steady_clock::now(), run.aside = 0;
      run.state.epoch = static_cast<double>(epoch) + static_cast<double>(batch) / static_cast<double>(batches);
      run.tell(&TrainerCallback::on_step_end);
      run.carry_out(run.asked_for(after_step(arguments, run.state)));
      // At the end of an epoch only after what belongs to the epoch, which a resumed run would leave out.
      if (batch < batches && !run.stop && run.is_interrupted()) run.interrupt();
    }
    if (run.interrupted) break;
    run.tell(&TrainerCallback::on_epoch_end);
    run.carry_out(run.asked_for(after_epoch(arguments, run.state)));
    if (run.is_interrupted() && run.state.global_step < run.state.max_steps) run.interrupt();
  }
  run.losses.read();
  if (!run.interrupted && arguments.load_best_model_at_end && run.state.best_model_checkpoint) {
    wait_for_main();
    load_parameters(*run.state.best_model_checkpoint, *run.model);
    for (const auto& parameter : run.model->parameters()) parameter->value.set_requires_grad();
    run.step.take_loaded_values();
  }
  run.training = false;
  if (run.interrupted || is_finished) {
    run.tell(&TrainerCallback::on_train_end);
    return {};
  }
  // The run's time is whole; rates are over the updates that count.
  LogRecord summary = speed_metrics("train", seconds_since(run.begin), std::nullopt, std::nullopt);
  const int64_t warm_up = std::min(arguments.throughput_warmup_steps, run.steps_of_this_call);
  const int64_t updates = run.steps_of_this_call - warm_up;
  const double counted = seconds_since(counted_from) - (arguments.adjust_throughput ? run.aside : 0);
  const LogRecord rates = speed_metrics(
      "train", counted,
      static_cast<int64_t>(updates * arguments.per_device_train_batch_size * accumulation) * run.parts_of_batch(),
      updates);
  summary.insert(summary.end(), rates.begin() + 1, rates.end());
  summary.emplace_back("total_flos", run.state.total_flos);
  summary.emplace_back("train_loss",
                       run.losses.total() / static_cast<double>(std::max<int64_t>(run.state.global_step, 1)));
  run.log(summary);
  const std::optional<std::string> best =
      run.state.best_model_checkpoint ? std::optional(fs::path(*run.state.best_model_checkpoint).filename().string())
                                      : std::nullopt;
  wait_for_main();
  for (const std::string& old : !is_main() ? std::vector<std::string>()
                                           : checkpoints_to_delete_at_end(checkpoints_in(arguments.output_dir),
                                                                          arguments.save_total_limit, best))
    remove_directory(fs::path(arguments.output_dir) / old);
  run.tell(&TrainerCallback::on_train_end);
  return numbers_of(summary);
}

}  // namespace transom
