// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/benchmark.h"

#include <algorithm>

namespace transom {

Benchmark::Benchmark(BenchOptions options, BenchProgress progress)
    : options_(std::move(options)), progress_(std::move(progress)) {
  options_.check();
}

double Benchmark::timed_run() {
  const double begin = seconds_now();
  workload_->run();
  return seconds_now() - begin;
}

void Benchmark::begin() {
  tell("load_model", 0);
  phases_.push_back(measure_once("load_model", 0, [&] { workload_ = make_workload(options_); }));
  const std::string first = options_.training() ? "first_train" : "first_forward";  // or the first text
  tell(first, 0);
  phases_.push_back(measure_once(first, 0, [&] { workload_->run(); }));
  const double ram = phases_.back().max_ram;
  if (const double seconds = workload_->first_token_seconds(); seconds > 0)
    phases_.push_back({"first_token", {phases_.front().seconds.at(0) + seconds}, 0, ram});
  phases_.insert(phases_.begin(), {"startup", {seconds_since_process_start()}, 0, ram});
}

std::vector<double> Benchmark::repeat(int64_t runs) {
  std::vector<double> seconds;
  for (int64_t i = 0; i < runs; ++i) seconds.push_back(timed_run());
  return seconds;
}

void Benchmark::measure() {
  const bool training = options_.training();
  const double samples = workload_->samples();
  const PeakMemory warmup_memory;
  std::vector<double> warmup;
  if (training) warmup.push_back(phases_.back().seconds[0]);  // the first step is the first of those that warm up
  for (int64_t i = 0; i < options_.warmup_runs; ++i) {
    tell("warmup", static_cast<double>(i) / static_cast<double>(options_.warmup_runs));
    warmup.push_back(timed_run());
  }
  const double warmup_ram = warmup_memory.megabytes();

  const char* name = training ? "train" : "forward";
  workload_->forget_phases();
  const PeakMemory memory;
  std::vector<double> steady;
  const double begin = seconds_now();
  for (;;) {
    const double elapsed = seconds_now() - begin;
    const auto runs = static_cast<double>(steady.size());
    const double share = std::min(options_.duration > 0 ? elapsed / options_.duration : 1,
                                  runs / static_cast<double>(options_.iterations));
    tell(name, std::min(share, 1.0));
    if (share >= 1) break;
    steady.push_back(timed_run());
  }
  const double ram = memory.megabytes();
  if (training) {
    std::vector<double> overall = warmup;
    overall.insert(overall.end(), steady.begin(), steady.end());
    phases_.push_back({"overall", overall, samples, std::max(ram, warmup_ram)});
    phases_.push_back({"warmup", warmup, samples, warmup_ram});
  }
  const std::vector<Phase> within = workload_->phases(ram);
  phases_.insert(phases_.end(), within.begin(), within.end());
  phases_.push_back({within.empty() ? name : "generate", steady, samples, ram});
}

}  // namespace transom
