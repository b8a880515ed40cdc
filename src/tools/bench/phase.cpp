// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/phase.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <numeric>
#include <string_view>

#include "base/memory/resident_memory.h"

namespace transom {
namespace {

// Between the two nearest values, as numpy.percentile.
double percentile(const std::vector<double>& sorted, double percent) {
  const double place = percent / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - static_cast<double>(below));
}

// The whole number that a field of /proc begins with, behind spaces; 0 without one.
double number_at_begin(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return static_cast<double>(value);
}

}  // namespace

Latency latency_of(const std::vector<double>& seconds) {
  Latency result;
  if (seconds.empty()) return result;
  const auto count = static_cast<double>(seconds.size());
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  result.total = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  result.mean = result.total / count;
  result.p10 = percentile(sorted, 10);
  result.p50 = percentile(sorted, 50);
  result.p90 = percentile(sorted, 90);
  result.p95 = percentile(sorted, 95);
  result.p99 = percentile(sorted, 99);
  double squares = 0;
  for (const double value : seconds) squares += (value - result.mean) * (value - result.mean);
  result.stdev = std::sqrt(squares / count);
  result.stdev_percent = result.mean > 0 ? 100 * result.stdev / result.mean : 0;
  return result;
}

double Phase::throughput() const {
  const double mean = latency_of(seconds).mean;
  return samples > 0 && mean > 0 ? samples / mean : 0;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double seconds_since_process_start() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  // Behind the name, which may hold anything, the start is the 20th field, in ticks since the machine was started.
  std::string_view rest = std::string_view(line).substr(std::min(line.size(), line.rfind(')') + 1));
  for (int i = 0; i < 20; ++i) {
    const size_t space = rest.find(' ');
    rest.remove_prefix(space == rest.npos ? rest.size() : space + 1);
  }
  const double ticks = number_at_begin(rest);
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const double started = ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  return std::max(0.0, static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 - started);
}

PeakMemory::PeakMemory() { reset_resident_peak(); }

double PeakMemory::megabytes() const { return static_cast<double>(resident_peak_bytes()) * 1e-6; }

Phase measure_once(const std::string& name, double samples, const std::function<void()>& work) {
  const PeakMemory memory;
  const double begin = seconds_now();
  work();
  const double end = seconds_now();
  return {name, {end - begin}, samples, memory.megabytes()};
}

}  // namespace transom
