// SPDX-License-Identifier: Apache-2.0
#include "ops/batch_invariance.h"

#include "ops/computing.h"

namespace transom {

BatchInvariance::BatchInvariance() : before_(set_computing(&Computing::batch_invariant, true)) {}
BatchInvariance::~BatchInvariance() { set_computing(&Computing::batch_invariant, before_); }
bool BatchInvariance::active() { return computing().batch_invariant; }

}  // namespace transom
