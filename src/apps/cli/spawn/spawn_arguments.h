// SPDX-License-Identifier: Apache-2.0
// What transom spawn is told: by its flags, which are those of several launchers, and by Accelerate's file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/terminal/command_line.h"
#include "runtime/distributed/spawn/host_file.h"

namespace transom {

// As the flags give it; what is not given is empty or 0.
struct SpawnFlags {
  int64_t per_machine = 0, ranks = 0;  // processes
  int64_t machines = 0, machine_rank = -1, max_restarts = 0;
  std::string master_address, hostfile, config_file, ssh = "ssh";
  int64_t master_port = 0;
  bool use_mpi = false, use_deepspeed = false, no_prefix = false;
  std::vector<Option> options();
};

// A process to be started.
struct SpawnPlace {
  int64_t rank = 0, local_rank = 0, local_ranks = 1;
  std::string host;  // empty: this machine
};

struct SpawnPlan {
  std::vector<SpawnPlace> places;  // those that this call starts; with mpirun none
  int64_t ranks = 1;
  std::string master_address;
  uint16_t master_port = 0;  // 0: any that is free, for processes of this machine alone
  bool use_mpi = false;
  std::string hostfile;              // for mpirun; may be empty
  std::vector<std::string> command;  // of transom, with its arguments; or, behind "--", of any program
  bool any_program = false;
  std::vector<std::string> notes;
};

// Reads the words behind `transom spawn`. Throws an Error of kind kUsage that names the flag.
SpawnPlan plan_spawn(const std::vector<std::string>& words, SpawnFlags& flags);

// The words up to the command that is to be started.
size_t spawn_words(const std::vector<std::string>& words, const std::vector<Option>& options);

}  // namespace transom
