// SPDX-License-Identifier: Apache-2.0
// Measures a model in the phases of optimum-benchmark: loading, the first run with its compilation, the steady state.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tools/bench/phase.h"
#include "tools/bench/workload.h"

namespace transom {

// Told before each phase and after each of its runs; `share` of the phase that is done, in [0, 1].
using BenchProgress = std::function<void(const std::string& phase, double share)>;

class Benchmark {
 public:
  explicit Benchmark(BenchOptions options, BenchProgress progress = nullptr);

  // Loads the model and runs it once: phases load_model and first_forward or first_train, and startup, which is the
  // time from the start of the process to the end of that run.
  void begin();
  // Warm-up runs, then runs until both duration and iterations are reached. Phases forward; or overall, warmup and
  // train, the steps of training with the first one, those that warm up, and the others.
  void measure();
  // So many runs and their seconds, beside the phases.
  std::vector<double> repeat(int64_t runs);

  const std::vector<Phase>& phases() const { return phases_; }
  const BenchOptions& options() const { return options_; }
  Workload& workload() { return *workload_; }

 private:
  double timed_run();
  void tell(const std::string& phase, double share) const {
    if (progress_) progress_(phase, share);
  }
  BenchOptions options_;
  BenchProgress progress_;
  std::unique_ptr<Workload> workload_;
  std::vector<Phase> phases_;
};

}  // namespace transom
