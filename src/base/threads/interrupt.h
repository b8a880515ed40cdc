// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/interrupt.h"

namespace transom {

// Throws an Error of kind kInterrupted if a stop is requested of this thread's innermost InterruptScope.
void check_interrupted();

}  // namespace transom
