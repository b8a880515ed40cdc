// SPDX-License-Identifier: Apache-2.0
// Reports of benchmarks as files, in the form of optimum-benchmark's benchmark.json: {"config", "report"}, and what one
// report is against another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json_fwd.h"
#include "tools/bench/phase.h"

namespace transom {

// The calls of a kernel on one set of types.
struct KernelTime {
  std::string operation, kernel, types;
  uint64_t calls = 0;
  double seconds = 0;  // of all calls
};

struct BenchReport {
  std::string name;
  std::vector<Phase> phases;
  std::vector<KernelTime> kernels;  // where the run was profiled
};

// `config` holds what was measured and where. optimum-benchmark's classes take the result: all of their fields are
// there (energy, efficiency and the memory of accelerators as null), the kernels lie in config.environment.
Json to_json(const BenchReport& report, Json config);
// Reads benchmark.json, or benchmark_report.json, which has the phases alone; `where` names the source in errors.
BenchReport parse_report(std::string_view text, const std::string& where);

// One quantity in both reports.
struct Comparison {
  std::string name;      // a phase, or "operation types" of a kernel
  std::string quantity;  // "latency" (seconds, the median; of a kernel the mean of a call) or "max_ram" (megabytes)
  double before = 0, after = 0;
  double share = 1;  // of a kernel in the time of all kernels, after
  bool regression = false;
  double ratio() const { return before > 0 ? after / before : 1; }
};
// `threshold` 0.05: more than 5 % slower, or larger, is a regression, if nine tenths of the new times are above nine
// tenths of the old ones besides; of a phase that is measured once (loading, the first run) it takes
// kSingleRunThreshold. Kernels that take less than a hundredth of the time never are.
inline constexpr double kSingleRunThreshold = 0.5;
std::vector<Comparison> compare_phases(const BenchReport& before, const BenchReport& after, double threshold);
std::vector<Comparison> compare_kernels(const BenchReport& before, const BenchReport& after, double threshold);

}  // namespace transom
