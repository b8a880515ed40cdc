// SPDX-License-Identifier: Apache-2.0
// What was measured in one phase of a benchmark: how long each of its values took, and the memory that it needed.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace transom {

// Statistics of latencies as optimum-benchmark defines them: percentiles are interpolated, the deviation is that of the
// whole population, and 0 for a single value.
struct Latency {
  double total = 0, mean = 0, p10 = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0;  // seconds
  double stdev = 0;                                                         // seconds
  double stdev_percent = 0;                                                 // of the mean
};
Latency latency_of(const std::vector<double>& seconds);

struct Phase {
  std::string name;             // "load_model", "first_forward", "forward", "train" ...
  std::vector<double> seconds;  // one a run
  double samples = 0;           // that a run processes; 0: the phase has no throughput
  double max_ram = 0;           // megabytes (10^6 bytes) of resident memory at its peak

  double throughput() const;  // samples a second; 0 without samples
};

double seconds_now();  // of a monotonic clock
// Seconds since the process was started, to 10 ms, as the kernel counts them.
double seconds_since_process_start();

// The peak of the process' resident memory in megabytes since the tracker was made, or since the process was started
// where the system does not reset the peak.
class PeakMemory {
 public:
  PeakMemory();
  double megabytes() const;
};

// Runs `work` once as a phase of one value.
Phase measure_once(const std::string& name, double samples, const std::function<void()>& work);

}  // namespace transom
