// SPDX-License-Identifier: Apache-2.0
// What the client libraries of Prometheus tell about a process.
#include <dirent.h>
#include <sys/resource.h>

#include <chrono>

#include "apps/serve/metrics/metrics.h"
#include "base/memory/resident_memory.h"

namespace transom::serve {
namespace {

double cpu_seconds() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double open_descriptors() {
  DIR* folder = ::opendir("/proc/self/fd");
  if (!folder) return 0;
  double count = -3;  // without ".", ".." and that of the folder
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

}  // namespace

void add_process_metrics(Metrics& metrics) {
  const double start = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  metrics.gauge("process_resident_memory_bytes", "Resident memory size in bytes.", {},
                [] { return static_cast<double>(resident_bytes()); });
  metrics.gauge("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", {}, cpu_seconds);
  metrics.gauge("process_open_fds", "Number of open file descriptors.", {}, open_descriptors);
  metrics.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", {},
                [start] { return start; });
}

}  // namespace transom::serve
