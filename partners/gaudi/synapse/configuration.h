// SPDX-License-Identifier: Apache-2.0
// What the environment asks of the emulator, and the published figures of the generation that it plays.
#pragma once

#include <cstdint>
#include <string>

#include "synapse_interface.h"

namespace synapse_emulator {

// The figures of one generation of cards, from its published descriptions.
struct Generation {
  const char* name;         // as TRANSOM_SYNAPSE_GENERATION spells it
  const char* device_name;  // as synDeviceGetName gives it
  synDeviceType type;
  uint64_t memory_bytes;
  uint64_t alignment;   // of device addresses, bytes
  uint32_t sram_bytes;  // on-chip memory
  int tpc_count;
  double clock_hertz;
  double memory_bandwidth;     // bytes a second
  double mme_bf16_flops;       // peak, a second
  double mme_f32_flops;        // an assumption: the ratio to bf16 is not published
  double mme_fp8_flops;        // 0: the engine has no fp8
  double tpc_bf16_flops;       // peak, a second; f32 has half of it
  double host_bandwidth;       // bytes a second each way
  double scale_up_bandwidth;   // bytes a second each way, to all cards of the server
  double scale_out_bandwidth;  // bytes a second each way, to other servers
  double hf8_maximum;          // the largest E4M3 number; 0: no fp8
  bool has_f16, has_tf32, has_int64, has_external_tensors;
};

enum class MmeSingle { kFull, kTf32, kBf16 };  // what the MME makes of f32 inputs

struct Configuration {
  Generation generation;
  uint32_t devices = 1;       // cards of this server
  std::string server;         // processes that name the same server share its cards; empty: a server of one's own
  uint64_t memory_bytes = 0;  // of one card
  bool deferred = false;      // work starts only when somebody waits for it
  bool poison = true;         // fresh device memory and workspaces are filled with NaN
  bool permute = false;       // the compiler uses the permission to permute outputs
  bool values = true;         // false: only the clock runs
  bool timeline = false;      // of all work, in the report
  bool check_races = true;    // accesses of two streams with no order between them are violations
  MmeSingle mme_single = MmeSingle::kFull;
  std::string log;              // file of the calls; empty: none
  std::string report;           // file of the clocks; empty: none
  std::string faults;           // see faults.h
  int threads = 1;              // that compute
  double timeout_seconds = 60;  // of collectives without progress
};

// Read once, at the first call. An unreadable value is told by synInitialize, which fails.
const Configuration& configuration();
const std::string& configuration_error();  // empty: none

}  // namespace synapse_emulator
