// SPDX-License-Identifier: Apache-2.0
#include "apps/dashboard/monitor/watch_run.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <optional>

#include "apps/dashboard/monitor/log_series.h"
#include "base/error.h"
#include "base/memory/resident_memory.h"
#include "base/threads/threads.h"
#include "runtime/device/device.h"
#include "runtime/programs/profile.h"
#include "transom/distributed.h"

namespace transom::dashboard {
namespace {

constexpr auto kMemoryInterval = std::chrono::milliseconds(500);
constexpr size_t kMostKernels = 40;

MemoryReading read_memory() {
  MemoryReading memory;
  memory.resident = static_cast<uint64_t>(resident_bytes());
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) memory.resident_peak = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  const MemoryUse device = default_device()->memory_use();
  memory.device = device.in_use, memory.device_peak = device.peak, memory.device_limit = device.limit;
  return memory;
}

class WatchRun : public TrainerCallback {
 public:
  WatchRun(std::shared_ptr<RunMonitor> monitor, std::shared_ptr<RunControl> control)
      : monitor_(std::move(monitor)), control_(std::move(control)) {}

  void on_train_begin(const TrainingArguments& arguments, const TrainerState& state) override {
    monitor_->update([&](RunStatus& s) {
      s.output_dir = arguments.output_dir;
      s.device = default_device()->name();
      s.processes = process_count();
      s.threads = static_cast<int64_t>(thread_count());
      s.precision = arguments.bf16 ? "bf16" : arguments.fp16 ? "fp16" : "f32";
      s.epochs = state.num_train_epochs;
      s.epoch = state.epoch;
      s.samples_per_step =
          arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps * process_count();
      s.memory = read_memory();
    });
    // The curve of a resumed run begins with what its checkpoint holds.
    for (const Series& series : series_of_log(state.log_history))
      for (const Point& point : series.points()) monitor_->add(series.name(), point.step, point.value);
    monitor_->begin(state.global_step, state.max_steps);
  }

  void on_step_begin(const TrainingArguments&, const TrainerState& state) override {
    if (!control_->profile.exchange(false) || profile_) return;
    try {
      profile_.emplace();
      profiled_from_ = state.global_step;
    } catch (const Error& error) {
      monitor_->say(fmt::format("kernels are not measured: {}", error.what()), true);
    }
  }

  void on_step_end(const TrainingArguments&, const TrainerState& state) override {
    monitor_->set_step(state.global_step, state.epoch);
    if (profile_ && state.global_step >= profiled_from_ + kProfiledSteps) take_profile(state.global_step);
    const auto now = RunMonitor::Clock::now();
    if (now < next_memory_) return;
    next_memory_ = now + kMemoryInterval;
    const MemoryReading memory = read_memory();
    monitor_->update([&](RunStatus& s) { s.memory = memory; });
    monitor_->add("memory_mb", state.global_step, static_cast<double>(memory.resident) * 1e-6);
    if (memory.device > 0)
      monitor_->add("device_memory_mb", state.global_step, static_cast<double>(memory.device) * 1e-6);
  }

  void on_log(const TrainingArguments&, const TrainerState& state, const Metrics& metrics) override {
    std::string line;
    for (const auto& [name, value] : metrics) {
      if (name != "step") line += fmt::format("{}{} {:.5g}", line.empty() ? "" : "  ", name, value);
      // Those of each update are finer (add_step).
      if (is_curve(name) && name != "loss" && name != "grad_norm" && name != "learning_rate")
        monitor_->add(name, state.global_step, value);
    }
    monitor_->say(fmt::format("step {}: {}", state.global_step, line));
  }

  void on_evaluate(const TrainingArguments&, const TrainerState&, const Metrics&) override { monitor_->restart_rate(); }

  void on_save(const TrainingArguments&, const TrainerState& state) override {
    monitor_->update([&](RunStatus& s) { s.saved_step = state.global_step; });
    monitor_->say(fmt::format("saved a checkpoint of step {}", state.global_step));
    monitor_->restart_rate();
  }

  void on_train_end(const TrainingArguments&, const TrainerState& state) override {
    if (profile_) take_profile(state.global_step);
    monitor_->end(control_->stop ? Phase::kStopped : Phase::kEvaluating);
  }

  bool should_save() override { return control_->save.exchange(false); }
  bool should_interrupt() override { return control_->stop; }
  bool should_pause() override {
    const bool pause = control_->pause;
    if (pause == paused_) return pause;
    paused_ = pause;
    monitor_->update([&](RunStatus& s) { s.phase = pause ? Phase::kPaused : Phase::kTraining; });
    monitor_->say(pause ? "paused" : "goes on");
    monitor_->restart_rate();
    return pause;
  }

 private:
  void take_profile(int64_t step) {
    profile_->stop();
    KernelTable table{.first_step = profiled_from_ + 1, .steps = step - profiled_from_};
    table.seconds = profile_->summary().seconds;
    for (const Profile::Kernel& kernel : profile_->kernels()) {
      if (table.rows.size() >= kMostKernels) break;
      table.rows.push_back({kernel.operation, kernel.kernel, kernel.types, kernel.calls, kernel.seconds});
    }
    profile_.reset();
    monitor_->set_kernels(std::move(table));
  }

  std::shared_ptr<RunMonitor> monitor_;
  std::shared_ptr<RunControl> control_;
  std::optional<Profile> profile_;
  int64_t profiled_from_ = 0;
  RunMonitor::Clock::time_point next_memory_;
  bool paused_ = false;
};

}  // namespace

std::shared_ptr<TrainerCallback> watch_run(std::shared_ptr<RunMonitor> monitor, std::shared_ptr<RunControl> control) {
  return std::make_shared<WatchRun>(std::move(monitor), std::move(control));
}

void add_step(RunMonitor& monitor, const StepReport& report) {
  monitor.add("loss", report.step, report.loss);
  monitor.add("grad_norm", report.step, report.gradient_norm);
  monitor.add("learning_rate", report.step, report.learning_rate);
}

}  // namespace transom::dashboard
