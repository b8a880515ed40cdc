// SPDX-License-Identifier: Apache-2.0
#include "process.h"
namespace synapse_emulator {
class Communicator {};
}  // namespace synapse_emulator
