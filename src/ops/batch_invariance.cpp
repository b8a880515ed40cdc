// SPDX-License-Identifier: Apache-2.0
#include "ops/batch_invariance.h"

namespace transom {
namespace {

thread_local bool on = false;

}  // namespace

BatchInvariance::BatchInvariance() : before_(on) { on = true; }
BatchInvariance::~BatchInvariance() { on = before_; }
bool BatchInvariance::active() { return on; }

}  // namespace transom
