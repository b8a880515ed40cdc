// SPDX-License-Identifier: Apache-2.0
// What somebody who watches a run asks of it: set by any thread, obeyed after the update that is under way.
#pragma once

#include <atomic>

namespace transom::dashboard {

struct RunControl {
  std::atomic<bool> pause{false};    // as long as it is set
  std::atomic<bool> save{false};     // once
  std::atomic<bool> stop{false};     // with a checkpoint to resume from
  std::atomic<bool> profile{false};  // once: measures the kernels of the next updates
};

}  // namespace transom::dashboard
