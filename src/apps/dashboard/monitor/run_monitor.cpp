// SPDX-License-Identifier: Apache-2.0
#include "apps/dashboard/monitor/run_monitor.h"

#include <algorithm>

namespace transom::dashboard {
namespace {

constexpr size_t kMostSeries = 64, kMostMessages = 200, kMostMarks = 256;
constexpr auto kRateWindow = std::chrono::seconds(30);

}  // namespace

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::kPreparing:
      return "preparing";
    case Phase::kTraining:
      return "training";
    case Phase::kPaused:
      return "paused";
    case Phase::kEvaluating:
      return "evaluating";
    case Phase::kStopped:
      return "stopped";
    case Phase::kFinished:
      return "finished";
    case Phase::kFailed:
      return "failed";
  }
  return "";
}

void RunMonitor::begin(int64_t step, int64_t max_steps) {
  const std::lock_guard lock(mutex_);
  status_.phase = Phase::kTraining;
  status_.step = step;
  status_.max_steps = max_steps;
  begin_ = Clock::now();
  end_.reset();
  marks_.assign(1, {*begin_, step});
}

void RunMonitor::end(Phase phase) {
  const std::lock_guard lock(mutex_);
  status_.phase = phase;
  if (begin_ && !end_) end_ = Clock::now();
}

void RunMonitor::set_step(int64_t step, double epoch) {
  const std::lock_guard lock(mutex_);
  status_.step = step;
  status_.epoch = epoch;
  const Clock::time_point now = Clock::now();
  marks_.push_back({now, step});
  // Two are kept however old they are: slow updates have a rate, too.
  while (marks_.size() > kMostMarks || (marks_.size() > 2 && now - marks_[1].time > kRateWindow)) marks_.pop_front();
}

void RunMonitor::restart_rate() {
  const std::lock_guard lock(mutex_);
  marks_.assign(1, {Clock::now(), status_.step});
}

void RunMonitor::add(std::string_view series, int64_t step, double value) {
  const std::lock_guard lock(mutex_);
  auto found = std::find_if(series_.begin(), series_.end(), [&](const Series& s) { return s.name() == series; });
  if (found == series_.end()) {
    if (series_.size() >= kMostSeries) return;
    series_.emplace_back(std::string(series));
    found = series_.end() - 1;
  }
  found->add(step, value, ++number_);
}

void RunMonitor::say(std::string text, bool warning) {
  const std::lock_guard lock(mutex_);
  messages_.push_back({std::move(text), warning, ++number_});
  if (messages_.size() > kMostMessages) messages_.pop_front();
}

void RunMonitor::set_kernels(KernelTable table) {
  const std::lock_guard lock(mutex_);
  kernels_ = std::move(table);
  kernels_.number = ++number_;
}

void RunMonitor::fill_times(RunStatus& status) const {
  if (!begin_) return;
  status.seconds = std::chrono::duration<double>(end_.value_or(Clock::now()) - *begin_).count();
  if (marks_.size() < 2) return;
  const double gone = std::chrono::duration<double>(marks_.back().time - marks_.front().time).count();
  if (gone <= 0) return;
  status.steps_per_second = static_cast<double>(marks_.back().step - marks_.front().step) / gone;
  if (status.phase == Phase::kTraining && status.steps_per_second > 0)
    status.seconds_left =
        static_cast<double>(std::max<int64_t>(0, status.max_steps - status.step)) / status.steps_per_second;
}

RunView RunMonitor::view(uint64_t after) const {
  const std::lock_guard lock(mutex_);
  RunView view{.status = status_, .series = {}, .messages = {}, .kernels = {}, .number = number_};
  fill_times(view.status);
  for (const Series& series : series_) {
    if (after == 0) {
      view.series.push_back(series);
      continue;
    }
    const auto& points = series.points();
    const auto first =
        std::partition_point(points.begin(), points.end(), [&](const Point& p) { return p.number <= after; });
    if (first == points.end()) continue;
    view.series.emplace_back(series.name(), points.size() + 1);
    for (auto point = first; point != points.end(); ++point)
      view.series.back().add(point->step, point->value, point->number);
  }
  for (const Message& message : messages_)
    if (message.number > after) view.messages.push_back(message);
  if (kernels_.number > after) view.kernels = kernels_;
  return view;
}

}  // namespace transom::dashboard
