// SPDX-License-Identifier: Apache-2.0
// Splits loops over the threads that compute (TRANSOM_SYNAPSE_THREADS). Results do not depend on their number.
#pragma once

#include <cstdint>
#include <functional>

namespace synapse_emulator {

// Calls f(begin, end) on pieces of [0, count), at least `grain` long but for the last.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& f);

}  // namespace synapse_emulator
