// SPDX-License-Identifier: Apache-2.0
// Memory of this process that is resident, in bytes, as the system counts it.
#pragma once

#include <cstdint>

namespace transom {

// 0 where the system does not say.
int64_t resident_bytes();
// The most since the process was started, or since reset_resident_peak() where the system offers that (Linux).
int64_t resident_peak_bytes();
// Of the whole process: of two askers at a time each sees what came after the later reset.
void reset_resident_peak();

}  // namespace transom
