// SPDX-License-Identifier: Apache-2.0
// What the stages of a run took of memory, by the names of Transformers' TrainerMemoryTracker.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "work/train/files/trainer_state.h"

namespace transom {

// Measures one stage at a time ("init", "train", "eval", "test"); one that begins within another counts as part of it.
// Peaks are those of the process and of its device: of two Trainers at a time each sees what came after the later
// beginning.
class MemoryMetrics {
 public:
  // Begins "init". `skip`: measures nothing (skip_memory_metrics).
  explicit MemoryMetrics(bool skip) : skip_(skip) { begin("init"); }

  void begin(std::string_view stage);
  // Adds `<stage>_mem_cpu_alloc_delta`, what is held more than at its beginning, and `_peaked_delta`, what was held
  // beyond that for a while; the same of `gpu` where the device has memory of its own. In bytes. With the first of them
  // comes that of "init", which has no record of its own, and what was held before it.
  void end(std::string_view stage, LogRecord* record = nullptr);

 private:
  struct Use {
    int64_t begin = 0, allocated = 0, peaked = 0;
  };
  bool skip_, told_init_ = false;
  std::string stage_;                               // that is measured
  Use host_, device_;                               // its beginning
  std::map<std::string, Use> on_host_, on_device_;  // by stage
};

}  // namespace transom
