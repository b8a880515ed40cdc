// SPDX-License-Identifier: Apache-2.0
// Faults on request: TRANSOM_SYNAPSE_FAULT="synDeviceMalloc:17:out_of_memory,*:200:device_lost" makes the 17th call of
// synDeviceMalloc and the 200th call of all fail (calls that
// free or destroy something do not count in "all"). Kinds: out_of_memory, host_out_of_memory, device_lost (every later
// call on the device fails until it is released and acquired again), failed, timeout, busy, and slow (the call, or the
// transfer of a collective, takes a second longer; slow=0.2 for other times). N may be "every".
#pragma once

#include <string>

namespace synapse_emulator {

struct Fault {
  std::string kind;
  int status = 0;            // of a syn* function
  int result = 0;            // of an hccl* function
  double delay_seconds = 0;  // if this is all that happens
  bool loses_device = false;
};

// True if this call of `function` is to fail, and how. Counts the call.
bool take_fault(const char* function, Fault& fault);
// "" or why TRANSOM_SYNAPSE_FAULT cannot be read.
const std::string& fault_error();

}  // namespace synapse_emulator
