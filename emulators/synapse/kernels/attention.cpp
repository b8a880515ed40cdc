// SPDX-License-Identifier: Apache-2.0
#include "kernel.h"

namespace synapse_emulator {

void add_attention(KernelTable&) {}

}  // namespace synapse_emulator
