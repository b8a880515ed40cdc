// SPDX-License-Identifier: Apache-2.0
// The loop of a run: epochs, updates, and what happens between them.
#include "transom/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/terminal/log.h"
#include "base/threads/prefetcher.h"
#include "inputs/data/text/padding.h"
#include "models/loading/adapters/adaptation.h"
#include "runtime/device/static_shapes.h"
#include "runtime/distributed/process_group.h"
#include "transom/ops.h"
#include "work/train/files/checkpoints.h"
#include "work/train/files/disk_space.h"
#include "work/train/files/trainer_checkpoint.h"
#include "work/train/loop/model_inputs.h"
#include "work/train/loop/run_checks.h"
#include "work/train/loop/samplers.h"
#include "work/train/loop/trainer_control.h"
#include "work/train/loop/trainer_run.h"
#include "work/train/step/distillation.h"

namespace transom {
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
void Trainer::set_teacher(std::shared_ptr<const Model> teacher,
                          std::function<NamedTensors(const NamedTensors&)> inputs_of) {
  run_->step.objective().learn_from({std::move(teacher), *run_->model, run_->arguments.distillation_temperature,
                                     run_->arguments.distillation_weight, std::move(inputs_of)});
}
void Trainer::set_objective(std::shared_ptr<Objective> objective) { run_->step.set_objective(std::move(objective)); }
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
Predictions Trainer::predict(const TrainingData& data) {
  run_->memory.begin("test");
  Predictions predictions = run_->predict(data, false);
  LogRecord record;
  run_->memory.end("test", &record);
  predictions.memory = numbers_of(record);
  return predictions;
}

namespace {

TrainSampler sampler_of(const TrainingArguments& arguments, const TrainingData& data, const TrainStep& step) {
  const bool by_length = arguments.train_sampling_strategy == "group_by_length";
  return TrainSampler(data.rows,
                      {.strategy = arguments.train_sampling_strategy,
                       .seed = by_length ? arguments.seed : arguments.sampling_seed(),
                       .batch_size = arguments.per_device_train_batch_size * step.devices_of_batch(),
                       .accumulation = arguments.gradient_accumulation_steps,
                       .drop_last = arguments.dataloader_drop_last,
                       .ranks = step.batch_ranks(),
                       .rank = step.batch_rank(),
                       .batches = data.epoch_batches},
                      data.lengths);
}

bool is_newest(const std::optional<std::string>& checkpoint) {
  return checkpoint && (*checkpoint == "true" || *checkpoint == "True");
}

}  // namespace

// One call of train(): where it begins, its epochs, and what is said at its end.
struct Trainer::Run::Course {
  Run& run;
  const TrainingArguments& arguments = run.arguments;
  const TrainSampler sampler = sampler_of(arguments, *run.train_data, run.step);
  const int64_t accumulation = arguments.gradient_accumulation_steps;
  const int64_t batches = sampler.batches_per_epoch();
  Duration duration{};
  Position position;
  bool is_finished = false;  // what is resumed has had all its updates
  BatchPadding padding = BatchPadding::kStays;
  bool fills_up = false;
  std::chrono::steady_clock::time_point counted_from{};  // throughput_warmup_steps

  explicit Course(Run& of) : run(of) {
    if (batches == 0)
      fail("an epoch has no batch: {} rows do not fill a batch of {} and dataloader_drop_last is set",
           run.train_data->rows, arguments.per_device_train_batch_size);
    duration = duration_of(batches, accumulation, arguments.num_train_epochs, arguments.max_steps);
    if (const Adaptation* adaptation = run.model->adaptation(); adaptation && adaptation->training())
      adaptation->training()->expect_updates(duration.updates);
  }

  void begin(const std::optional<std::string>& resume_from);
  void train_epochs();
  // The summary of the run; nothing where it was interrupted, or had nothing left to do.
  Metrics end();

 private:
  void resume(const std::string& from);
  void begin_losses();
  void prepare_directory(const std::optional<std::string>& resume_from);
  bool goes_on() const { return !run.stop && run.state.global_step < duration.updates; }
  Batch make_batch(const Batches& order, int64_t epoch, int64_t place) const;
  void train_epoch(int64_t epoch);
  void load_best();
  LogRecord summarise();
  void remove_beyond_limit() const;
};

void Trainer::Run::Course::begin(const std::optional<std::string>& resume_from) {
  run.saver.reset();  // a save of an earlier call that ended early is over, and so is its error
  run.state = TrainerState();
  run.schedule = make_schedule({.type = arguments.lr_scheduler_type,
                                .settings = arguments.lr_scheduler_kwargs,
                                .learning_rate = arguments.learning_rate,
                                .warmup_steps = arguments.warmup_steps_of(duration.updates),
                                .steps = duration.updates});
  run.last_checkpoint.reset();
  run.interrupted.reset();
  run.requests = {};
  if (resume_from) resume(*resume_from);
  run.state.max_steps = duration.updates;
  run.state.num_train_epochs = duration.epochs;
  run.state.train_batch_size = arguments.per_device_train_batch_size;
  run.state.compute_steps(arguments, duration.updates);
  run.step.begin_run();
  begin_losses();
  run.steps_of_this_call = 0;
  run.stop = false;
  prepare_directory(resume_from);
  padding =
      padding_of_batches(arguments, *run.model, run.step.sharding() != nullptr, run.step.objective().reads_padding());
  // Norms over a batch would see rows that only fill it up.
  fills_up =
      batches > 1 && run.model->buffers().empty() && run.step.objective().rows_stand_alone() && wants_static_shapes();
}

void Trainer::Run::Course::resume(const std::string& from) {
  fs::path directory(from);
  if (is_newest(from)) {
    const auto last = run.checkpoint_of_all();
    if (!last)
      fail("resume_from_checkpoint: {} holds no checkpoint; leave the argument out to train from the start",
           arguments.output_dir);
    directory = fs::path(arguments.output_dir) / *last;
  }
  load_run(directory, *run.model, run.step, *run.schedule, run.state);
  run.step.objective().load(directory);
  for (const auto& parameter : run.model->parameters()) parameter->value.set_requires_grad();
  run.step.take_loaded_values();
  if (run.early_stopping) run.early_stopping->load(run.state.stateful_callbacks);
  run.last_checkpoint = directory.string();
  const Position reached = resume_position(run.state.global_step, batches, accumulation);
  if (!arguments.ignore_data_skip) position = reached;
  compare_epochs(
      directory, run.state,
      static_cast<double>(reached.epoch) + static_cast<double>(reached.batch) / static_cast<double>(batches));
  is_finished = run.state.global_step >= duration.updates;
  if (is_finished)
    transom::log(LogLevel::kInfo,
                 fmt::format("nothing left to train: step {} of {}", run.state.global_step, duration.updates));
}

// Reading numbers may gather weights: all processes read at the same updates, also where one alone reports them.
void Trainer::Run::Course::begin_losses() {
  LossLog::OnStep report = run.report;
  if (ProcessGroup* group = process_group(); group && group->sum(report ? 1 : 0) > 0 && !report)
    report = [](const StepReport&) {};
  run.losses.begin(
      run.state.global_step, [run = &run](const StepReport& update) { run->report_non_finite_update(update); },
      std::move(report));
}

void Trainer::Run::Course::prepare_directory(const std::optional<std::string>& resume_from) {
  make_directories(arguments.output_dir);
  wait_for_main();  // all have read what is removed now
  if (is_main()) remove_unfinished_checkpoints(arguments.output_dir);
  if (const auto room = available_bytes(arguments.output_dir);
      room && !is_finished && !run.step.sharding() && is_main())
    if (const auto warning = short_of_space(disk_need(arguments, run.state, *run.model), *room, arguments.output_dir))
      transom::log(LogLevel::kWarning, *warning);
  // A killed run may have come to write one, but not to remove another.
  if (is_newest(resume_from)) run.remove_old_checkpoints(run.state.best_model_checkpoint);
  for (const std::string& target : arguments.report_to)
    if (target == "tensorboard" && is_main())
      run.board = std::make_unique<TensorBoard>(
          arguments.logging_dir.value_or((fs::path(arguments.output_dir) / "runs").string()));
}

void Trainer::Run::Course::train_epochs() {
  run.begin = std::chrono::steady_clock::now();
  run.tokens_before = run.tokens_learnt = run.state.num_input_tokens_seen;
  if (run.arguments.include_num_input_tokens_seen == "all")  // that counts padding: what was logged last does not
    for (const LogRecord& record : run.state.log_history)
      if (const auto tokens = find_number(record, "num_tokens")) run.tokens_learnt = static_cast<int64_t>(*tokens);
  run.training = true;
  counted_from = run.begin;
  run.overhead_seconds = 0;
  run.tell(&TrainerCallback::on_train_begin);
  if (arguments.eval_on_start && !is_finished) run.evaluate("eval");
  for (int64_t epoch = position.epoch; epoch < duration.epochs && goes_on(); ++epoch) {
    train_epoch(epoch);
    if (run.interrupted) break;
    run.tell(&TrainerCallback::on_epoch_end);
    run.carry_out(run.asked_for(after_epoch(arguments, run.state)));
    if (run.is_interrupted() && run.state.global_step < run.state.max_steps) run.interrupt();
  }
  run.losses.read();
  run.finish_saving();
  if (!run.interrupted && arguments.load_best_model_at_end && run.state.best_model_checkpoint) load_best();
  run.training = false;
}

Batch Trainer::Run::Course::make_batch(const Batches& order, int64_t epoch, int64_t place) const {
  // Batches are numbered over all processes.
  const int64_t number = (epoch * batches + place) * run.step.batch_ranks() + run.step.batch_rank();
  Batch made = run.train_data->batch(order[static_cast<size_t>(place)]);
  if (fills_up) fill_up(made, arguments.per_device_train_batch_size * run.step.devices_of_batch());
  if (run.train_data->augment) run.train_data->augment(made, static_cast<uint64_t>(number));
  return made;
}

void Trainer::Run::Course::train_epoch(int64_t epoch) {
  const Batches order = sampler.epoch(epoch, run.evaluations_before(epoch, duration.updates_per_epoch));
  int64_t batch = epoch == position.epoch ? position.batch : 0;
  run.tell(&TrainerCallback::on_epoch_begin);
  // What is left of the epoch, or of the run, made while the updates before run.
  Prefetcher<Batch> rows(
      std::min(batches - batch, (duration.updates - run.state.global_step) * accumulation),
      [&, first = batch](int64_t i) { return make_batch(order, epoch, first + i); },
      std::max<int64_t>(2, accumulation));
  while (batch < batches && goes_on()) {
    std::vector<NamedTensors> micro_batches;
    for (int64_t k = 0; k < accumulation && batch < batches; ++k, ++batch) {
      Batch made = rows.next();
      run.count_tokens(made);
      micro_batches.push_back(to_inputs(with_few_lengths(std::move(made), padding), *run.model, padding));
    }
    run.complete(micro_batches, epoch * batches + batch - static_cast<int64_t>(micro_batches.size()));
    run.tell(&TrainerCallback::on_step_begin);
    run.update(micro_batches);
    if (run.steps_of_this_call == arguments.throughput_warmup_steps)
      counted_from = std::chrono::steady_clock::now(), run.overhead_seconds = 0;
    run.state.epoch = static_cast<double>(epoch) + static_cast<double>(batch) / static_cast<double>(batches);
    run.tell(&TrainerCallback::on_step_end);
    run.carry_out(run.asked_for(after_step(arguments, run.state)));
    run.wait_while_paused();
    // At the end of an epoch only after what belongs to the epoch, which a resumed run would leave out.
    if (batch < batches && !run.stop && run.is_interrupted()) run.interrupt();
  }
}

void Trainer::Run::Course::load_best() {
  wait_for_main();
  load_parameters(*run.state.best_model_checkpoint, *run.model, run.step.sharding());
  run.step.objective().load(*run.state.best_model_checkpoint);
  for (const auto& parameter : run.model->parameters()) parameter->value.set_requires_grad();
  run.step.take_loaded_values();
}

// The run's time is whole; rates are over the updates that count.
LogRecord Trainer::Run::Course::summarise() {
  LogRecord summary = speed_metrics("train", seconds_since(run.begin), std::nullopt, std::nullopt);
  const int64_t warm_up = std::min(arguments.throughput_warmup_steps, run.steps_of_this_call);
  const int64_t updates = run.steps_of_this_call - warm_up;
  const double counted = seconds_since(counted_from) - (arguments.adjust_throughput ? run.overhead_seconds : 0);
  const LogRecord rates = speed_metrics(
      "train", counted,
      static_cast<int64_t>(updates * arguments.per_device_train_batch_size * accumulation) * run.parts_of_batch(),
      updates);
  summary.insert(summary.end(), rates.begin() + 1, rates.end());
  summary.emplace_back("total_flos", run.state.total_flos);
  summary.emplace_back("train_loss",
                       run.losses.total() / static_cast<double>(std::max<int64_t>(run.state.global_step, 1)));
  run.add_measures(summary, run.losses.mean_measures());  // of the updates behind the last record, as TRL logs them
  run.add_numbers(summary);
  return summary;
}

void Trainer::Run::Course::remove_beyond_limit() const {
  const std::optional<std::string> best =
      run.state.best_model_checkpoint ? std::optional(fs::path(*run.state.best_model_checkpoint).filename().string())
                                      : std::nullopt;
  wait_for_main();
  if (!is_main()) return;
  for (const std::string& old :
       checkpoints_to_delete_at_end(checkpoints_in(arguments.output_dir), arguments.save_total_limit, best))
    remove_directory(fs::path(arguments.output_dir) / old);
}

Metrics Trainer::Run::Course::end() {
  LogRecord summary;
  if (run.interrupted || is_finished) {
    run.memory.end("train");
  } else {
    summary = summarise();
    run.memory.end("train", &summary);
    run.log(summary);
    remove_beyond_limit();
  }
  run.tell(&TrainerCallback::on_train_end);
  return numbers_of(summary);
}

Metrics Trainer::train(const std::optional<std::string>& resume_from) {
  Run& run = *run_;
  run.memory.begin("train");
  if (!run.train_data || run.train_data->rows == 0)
    fail("there is nothing to train on: set_train_data was not called, or the data has no rows");
  if (run.step.parameters().empty())
    fail("there is nothing to train: no parameter of {} requires a gradient", run.model->architecture());
  if (const auto asks = asks_for_evaluation(run.arguments); asks && !run.eval_data)
    fail(ErrorKind::kUsage, "{}: there is no evaluation data; give a validation_file", *asks);
  if (run.arguments.label_smoothing_factor > 0) expect_smoothable(*run.model, *run.train_data);
  Run::Course course(run);
  course.begin(resume_from);
  course.train_epochs();
  return course.end();
}

}  // namespace transom
