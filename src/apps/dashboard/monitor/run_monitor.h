// SPDX-License-Identifier: Apache-2.0
// What is known of a run while it goes on: its callback writes, views on a terminal or a page read.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/dashboard/monitor/series.h"

namespace transom::dashboard {

enum class Phase { kPreparing, kTraining, kPaused, kEvaluating, kStopped, kFinished, kFailed };
std::string_view name_of(Phase phase);

// Bytes; 0 where a number is not known.
struct MemoryReading {
  uint64_t resident = 0, resident_peak = 0;                // of the process
  uint64_t device = 0, device_peak = 0, device_limit = 0;  // of the device's buffers
};

struct KernelRow {
  std::string operation, kernel, types;
  uint64_t calls = 0;
  double seconds = 0;
};

// Kernels of some updates, measured when somebody asked.
struct KernelTable {
  int64_t first_step = 0, steps = 0;
  double seconds = 0;  // that the updates took
  std::vector<KernelRow> rows;
  uint64_t number = 0;  // of the measurement; 0: there is none
};

struct Message {
  std::string text;
  bool warning = false;
  uint64_t number = 0;
};

struct RunStatus {
  Phase phase = Phase::kPreparing;
  std::string model, task, output_dir, device, precision;
  int64_t processes = 1, threads = 1;
  int64_t step = 0, max_steps = 0, epochs = 0;
  double epoch = 0;
  int64_t samples_per_step = 0;
  double seconds = 0;                  // since the training began
  double steps_per_second = 0;         // over the last updates; 0: not known yet
  std::optional<double> seconds_left;  // of the training
  MemoryReading memory;
  std::optional<int64_t> saved_step;  // of the last checkpoint
};

// A copy of all, for a view.
struct RunView {
  RunStatus status;
  std::vector<Series> series;  // in the order in which they appeared
  std::vector<Message> messages;
  KernelTable kernels;
  uint64_t number = 0;  // of the newest point or message
};

// All functions are for any thread.
class RunMonitor {
 public:
  using Clock = std::chrono::steady_clock;

  // Changes the status under the lock: update([&](RunStatus& s) { s.step = 3; }).
  template <typename Change>
  void update(Change change) {
    const std::lock_guard lock(mutex_);
    change(status_);
  }
  // The training begins at `step`, of which a resumed run has made some already.
  void begin(int64_t step, int64_t max_steps);
  void end(Phase phase);
  void set_step(int64_t step, double epoch);
  // What passed is no training time of the rate: a pause, an evaluation.
  void restart_rate();
  // Series beyond 64 are dropped: their names come from metrics of the user.
  void add(std::string_view series, int64_t step, double value);
  // The last 200 are kept.
  void say(std::string text, bool warning = false);
  void set_kernels(KernelTable table);

  // All, or the points and messages after `number`, with the series that have any.
  RunView view(uint64_t after = 0) const;

 private:
  void fill_times(RunStatus& status) const;

  mutable std::mutex mutex_;
  RunStatus status_;
  std::vector<Series> series_;
  std::deque<Message> messages_;
  KernelTable kernels_;
  uint64_t number_ = 1;  // readers begin with 0
  std::optional<Clock::time_point> begin_, end_;
  struct Mark {
    Clock::time_point time;
    int64_t step;
  };
  std::deque<Mark> marks_;  // of the last updates
};

}  // namespace transom::dashboard
