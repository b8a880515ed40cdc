// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/ending_signals.h"

#include <pthread.h>

#include "base/error.h"

namespace transom {

EndingSignals::EndingSignals() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

bool EndingSignals::come_within(std::chrono::milliseconds limit) const {
  const timespec wait{limit.count() / 1000, limit.count() % 1000 * 1'000'000};
  return ::sigtimedwait(&signals_, nullptr, &wait) > 0;
}

void EndingSignals::wait_until_idle(double seconds, const std::function<bool()>& idle) const {
  constexpr std::chrono::milliseconds kMoment{20};
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  while (!idle() && std::chrono::steady_clock::now() < until)
    if (come_within(kMoment)) break;
}

uint16_t listening_port(int64_t port) {
  if (port < 0 || port > UINT16_MAX)
    fail(ErrorKind::kUsage, "--port: expected a number from 0 to 65535, found {}", port);
  return static_cast<uint16_t>(port);
}

}  // namespace transom
