// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/tokens/work_time.h"

#include <ctime>

namespace transom::constraint {

double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace transom::constraint
