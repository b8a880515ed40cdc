// SPDX-License-Identifier: Apache-2.0
#include "base/threads/interrupt.h"

#include <utility>

#include "base/error.h"

namespace transom {
namespace {

thread_local std::stop_token current;

}  // namespace

InterruptScope::InterruptScope(std::stop_token token) : before_(std::exchange(current, std::move(token))) {}
InterruptScope::~InterruptScope() { current = std::move(before_); }

void check_interrupted() {
  if (current.stop_requested())
    fail(ErrorKind::kInterrupted, "the computation was interrupted: the caller requested a stop");
}

}  // namespace transom
