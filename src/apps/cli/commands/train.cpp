// SPDX-License-Identifier: Apache-2.0
// transom train: fine-tunes a model on files, with the flags of Transformers' example scripts; transom evaluate: the
// evaluation of that, alone.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>

#include "apps/cli/command.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/options/serve_after_training.h"
#include "apps/cli/output/entity_table.h"
#include "apps/cli/output/log_messages.h"
#include "apps/cli/output/profile_table.h"
#include "apps/cli/output/train_dashboard.h"
#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "base/terminal/progress.h"
#include "models/loading/weights/missing_weights.h"
#include "transom/distributed.h"
#include "transom/fine_tuning.h"
#include "work/train/arguments/device_arguments.h"
#include "work/train/files/trainer_state.h"
#include "work/train/loop/model_inputs.h"
#include "work/train/setup/adapters.h"
#include "work/train/tasks/task_data.h"

namespace transom {
namespace {

enum class Part { kAll, kEvaluation };

// How long the run is, and when the first line of its log comes.
std::string plan_of(const TrainingArguments& arguments, const TrainerState& state) {
  std::string text = state.global_step > 0
                         ? fmt::format("training from step {} to {}", state.global_step, state.max_steps)
                         : fmt::format("training for {} steps", state.max_steps);
  if (arguments.logging_strategy == "epoch") return text + "; the loss is logged every epoch";
  if (arguments.logging_strategy == "no") return text + "; the loss is not logged (--logging_strategy no)";
  const auto every = static_cast<int64_t>(state.logging_steps);
  if (every <= 1) return text + "; the loss is logged at every step";
  if (state.global_step / every < state.max_steps / every)
    return text + fmt::format("; the loss is logged every {} steps", every);
  return text + fmt::format("; the loss is logged every {} steps, so not before the end (see --logging_steps)", every);
}

// A bar on a terminal; in a pipe one plain line a record of the log.
class ShowProgress : public TrainerCallback {
 public:
  void on_train_begin(const TrainingArguments& arguments, const TrainerState& state) override {
    if (state.global_step < state.max_steps) std::puts(plan_of(arguments, state).c_str());
    if (!arguments.disable_tqdm.value_or(false))
      bar_.emplace(stderr, "train", state.max_steps, "step", state.global_step);
  }
  void on_step_end(const TrainingArguments&, const TrainerState& state) override {
    if (bar_) bar_->update(state.global_step, fields_);
  }
  void on_log(const TrainingArguments&, const TrainerState& state, const Metrics& logged) override {
    fields_.clear();
    Metrics metrics = logged;
    const std::string table = take_entity_table(metrics);
    std::string line;
    for (const auto& [name, value] : metrics) {
      // What is not known: operations are not counted, and an evaluation alone is at no step.
      if (name == "total_flos" && value == 0) continue;
      if (state.max_steps == 0 && (name == "epoch" || name == "step")) continue;
      if (name == "loss" || name == "learning_rate")
        fields_.emplace_back(name == "loss" ? "loss" : "lr", fmt::format("{:.4g}", value));
      line += fmt::format("{}{} {:.6g}", line.empty() ? "" : "  ", name, value);
    }
    if (bar_) bar_->clear();
    std::fputs(table.c_str(), stdout);
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
int overfit(TrainArguments arguments, std::optional<Profile>& profile) {
  const std::string base = arguments.script.model_name_or_path;
  fetch_models(arguments.script, {.progress = download_bars()});
  TrainingArguments training = arguments.training;
  if (training.max_steps <= 0) training.max_steps = 20;
  if (arguments.script.teacher_model)
    fail(ErrorKind::kUsage, "--teacher_model: --overfit_batch learns from its labels alone; leave one of them out");
  LoadReport report;
  auto model =
      load_base_model(arguments, arguments.script.model_name_or_path,
                      {.quantization = quantization_in_training(arguments.script), .keep_adapters = true}, &report);
  expect_trained_body(*model, report, base);
  add_adapters(arguments, base, *model, nullptr);
  const NamedTensors inputs = load_inputs(*arguments.script.overfit_batch);
  if (arguments.script.profile) profile.emplace();
  overfit_one_batch(*model, training, inputs, [&](const StepReport& report) {
    if (process_rank() > 0) return;
    if (arguments.script.json) print_step(report);
    else
      std::puts(fmt::format("step {:>5}  loss {:<12.6g} grad_norm {:<10.4g} learning_rate {:.4g}", report.step,
                            report.loss, report.gradient_norm, report.learning_rate)
                    .c_str());
  });
  return 0;
}

// The profile's trace and table; standard output stays for the lines of JSON.
void finish(std::optional<Profile>& profile, const ScriptArguments& script) {
  if (!profile || process_rank() > 0) return;
  profile->write_trace(*script.profile);
  std::fputs(profile_table(*profile).c_str(), script.json ? stderr : stdout);
}

// What is left of `train` where the model is evaluated and nothing else, whatever a file of arguments says.
void restrict_to_evaluation(TrainArguments& arguments) {
  if (arguments.script.overfit_batch)
    fail(ErrorKind::kUsage, "--overfit_batch: evaluate trains nothing; see transom train");
  arguments.training.do_train = false;
  arguments.training.do_eval = true;
  arguments.training.eval_strategy = "no";  // which speaks of training
  arguments.training.load_best_model_at_end = arguments.training.eval_on_start = false;
  const ScriptArguments& script = arguments.script;
  if (!script.validation_file && !script.validation_dir && !script.train_file && !script.train_dir)
    fail(ErrorKind::kUsage, "--validation_file (or --validation_dir, of images or sounds) is missing");
}

// What to say, and the exit status, where a signal ended the run.
int say_interrupted(std::vector<std::string> words, const std::string& checkpoint, bool speaks) {
  // What is printed may be kept in logs: no token.
  for (size_t i = 0; i < words.size();)
    if (words[i].starts_with("--token=")) words.erase(words.begin() + static_cast<std::ptrdiff_t>(i));
    else if (words[i] == "--token" && i + 1 < words.size())
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(i), words.begin() + static_cast<std::ptrdiff_t>(i) + 2);
    else ++i;
  if (speaks)
    std::fprintf(stderr, "transom: interrupted; saved %s. To resume: transom train %s --resume_from_checkpoint %s\n",
                 checkpoint.c_str(), shell_words(words).c_str(), shell_words({checkpoint}).c_str());
  // The signal may have come to another process of the group.
  return 128 + (interrupting_signal() != 0 ? interrupting_signal() : SIGTERM);
}

int train(std::vector<std::string> words, Part part) {
  std::replace(words.begin(), words.end(), std::string("-m"), std::string("--model"));
  const bool evaluates = part == Part::kEvaluation;
  ServeAfterTraining serve;
  if (!evaluates) serve = take_serve_flags(words);
  TrainArguments arguments = parse_train_arguments(words);
  if (arguments.help) {
    std::fputs((evaluates ? evaluate_help() : train_help() + describe_serve_flags()).c_str(), stdout);
    return 0;
  }
  expect_servable(serve, arguments);
  if (evaluates) restrict_to_evaluation(arguments);
  else if (arguments.script.quantization != "none")
    fail(ErrorKind::kUsage, "--quantization: nothing is trained in 8-bit integers; see transom evaluate");
  // Replicas of a device are processes, of which rank 0 speaks.
  if (const int64_t processes = processes_of_device(arguments, evaluates); processes > 1) {
    std::vector<std::string> all{"--nproc", std::to_string(processes), "--no_prefix", evaluates ? "evaluate" : "train"};
    all.insert(all.end(), words.begin(), words.end());
    const int status = spawn_command().run_words(all);
    if (status == 0 && serve.wanted) serve_trained(serve, arguments);
    return status;
  }
  print_log_messages(arguments.training.log_level);
  // One of several processes speaks for all.
  const Launch launch = launch_of_environment();
  if (launch.rank > 0) set_log_sink({});
  for (const std::string& note : arguments.notes) log(LogLevel::kInfo, note);
  TrainingArguments& training = arguments.training;
  const ScriptArguments& script = arguments.script;
  DeviceOptions device{.device = script.device.value_or(training.use_cpu ? "cpu" : ""),
                       .mode = script.mode.value_or("")};
  if (!arguments.device_but.empty() && device.device.empty()) device.device = best_device_but(arguments.device_but);
  device.apply();
  join_process_group({.backend = training.ddp_backend.value_or(""),
                      .timeout = training.ddp_timeout,
                      .flight_recorder = (fs::path(training.output_dir) / "flight").string()});
  if (script.profile) expect_writable(*script.profile);
  if (script.model_name_or_path.empty() && !script.config_name)
    fail(ErrorKind::kUsage, "--model_name_or_path is missing: a directory, or a model's id on the Hugging Face Hub");
  std::optional<Profile> profile;
  if (script.overfit_batch) {
    if (script.dashboard || script.dashboard_port)
      fail(ErrorKind::kUsage, "--dashboard: --overfit_batch prints each of its steps; leave one of them out");
    const int status = overfit(arguments, profile);
    leave_process_group();
    finish(profile, script);
    return status;
  }
  if (script.profile) profile.emplace();
  FineTuneOptions options;
  if (process_rank() == 0) options.hub.progress = download_bars();
  const bool speaks = process_rank() == 0;
  if (evaluates && (script.dashboard || script.dashboard_port))
    fail(ErrorKind::kUsage, "--dashboard: evaluate trains nothing; see transom train");
  if (script.json && speaks) options.on_step = print_step;
  FineTuneResult result;
  {
    TrainDashboard dashboard(arguments);
    if (speaks && !script.json && !dashboard.draws()) {
      if (script.dashboard) arguments.training.disable_tqdm = true;  // plain lines alone
      options.callbacks.push_back(std::make_shared<ShowProgress>());
    }
    dashboard.add_to(options);
    options.callbacks.push_back(interrupt_on_signals());
    result = fine_tune(arguments, options);
    dashboard.finish(result.interrupted.has_value());
  }
  finish(profile, script);
  leave_process_group();
  if (result.interrupted) return say_interrupted(words, *result.interrupted, speaks);
  if (script.json && speaks && !result.evaluation.empty()) {
    Json line = Json::object();
    for (const auto& [name, value] : result.evaluation) line[name] = value;
    std::puts(dump_json(line).c_str());
  }
  if (serve.wanted && speaks) serve_trained(serve, arguments);
  return 0;
}

}  // namespace

Command train_command() {
  Command command{.name = "train",
                  .help = "Train a model on files of rows, chats, pairs, preferences, pictures or sounds"};
  command.run_words = [](const auto& words) { return train(words, Part::kAll); };
  return command;
}

Command evaluate_command() {
  Command command{.name = "evaluate", .help = "Evaluate a model on files"};
  command.run_words = [](const auto& words) { return train(words, Part::kEvaluation); };
  return command;
}

}  // namespace transom
