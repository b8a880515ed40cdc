// SPDX-License-Identifier: Apache-2.0
// What commands that listen until SIGTERM or SIGINT share: these signals, and the port.
#pragma once

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <functional>

namespace transom {

// Both signals come to the thread that made it alone, also those of threads that are made later; SIGPIPE to none.
class EndingSignals {
 public:
  EndingSignals();
  // Waits for one; false where none came within the limit.
  bool come_within(std::chrono::milliseconds limit) const;
  // After the first: waits until all is done, so many seconds are over, or a further one comes.
  void wait_until_idle(double seconds, const std::function<bool()>& idle) const;

 private:
  sigset_t signals_;
};

// The value of --port; throws Error where it is none.
uint16_t listening_port(int64_t port);

}  // namespace transom
