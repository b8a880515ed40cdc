// SPDX-License-Identifier: Apache-2.0
// The dashboard on a terminal: a thread that draws the screen of a run again and again in the same place.
#pragma once

#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>

#include "apps/dashboard/terminal/run_screen.h"

namespace transom::dashboard {

class TerminalDashboard {
 public:
  // `out` is a terminal and outlives this. Nobody else writes to it meanwhile.
  TerminalDashboard(std::FILE* out, std::shared_ptr<const RunMonitor> monitor);
  // Draws the last state, below which the terminal goes on.
  ~TerminalDashboard();
  TerminalDashboard(const TerminalDashboard&) = delete;
  TerminalDashboard& operator=(const TerminalDashboard&) = delete;

 private:
  void work();
  void draw();

  std::FILE* out_;
  std::shared_ptr<const RunMonitor> monitor_;
  size_t drawn_ = 0, width_ = 0;  // of the last screen
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace transom::dashboard
