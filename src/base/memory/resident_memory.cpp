// SPDX-License-Identifier: Apache-2.0
#include "base/memory/resident_memory.h"

#include <unistd.h>

#include <fstream>
#include <string>

namespace transom {

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, pages = 0;
  return file >> total >> pages ? pages * ::sysconf(_SC_PAGESIZE) : 0;
}

int64_t resident_peak_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    int64_t kilobytes = 0;
    if (word == "VmHWM:") return file >> kilobytes ? kilobytes * 1024 : 0;
  }
  return 0;
}

void reset_resident_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace transom
