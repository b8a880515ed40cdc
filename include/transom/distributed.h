// SPDX-License-Identifier: Apache-2.0
// Data-parallel training in several processes with one device each. torchrun, mpirun or srun launch them, or another
// launcher that sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT.
#pragma once

#include <cstdint>
#include <string>

#include "transom/error.h"

namespace transom {

// The place of this process among those that were launched together.
struct Launch {
  int64_t rank = 0, ranks = 1;
  int64_t local_rank = 0, local_ranks = 1;  // on this server
  std::string master_address;               // of rank 0's server
  uint16_t master_port = 0;
  std::string job;  // its name at the launcher; processes of other jobs are refused
};

// Read from the environment: torchrun's names, else those of Open MPI, MVAPICH, MPICH and Intel MPI, Slurm, or another
// launcher with PMI. Without any of them: one process. Throws an Error of kind kUsage if values contradict each other,
// or if a launcher does not say how many processes there are.
Launch launch_of_environment();

// The device of this process if the user asks for `device` (empty: any): of several devices of one kind, that of the
// local rank.
std::string device_of_process(const std::string& device);

struct ProcessGroupOptions {
  std::string backend;    // ddp_backend: "mpi", "gloo", "hccl", "nccl"; empty: chosen by device and launcher
  double timeout = 1800;  // ddp_timeout: seconds that ranks wait for each other
  // A directory in which each rank leaves flight_<rank>.json, its last collectives, when the run fails; `transom trace`
  // reads them. It is made where the one that holds it is there by then. Empty: no files.
  std::string flight_recorder;
};

// Connects to the other processes of the launch, if there are any, and makes the device in use part of their group;
// call it after set_device and before a Trainer. Throws if a process does not connect in time, and if this process is
// alone although its Slurm job has several tasks.
void join_process_group(const ProcessGroupOptions& options = {});
// Leaves the group, when all work is done.
void leave_process_group();

int64_t process_rank();   // 0 where there is one process
int64_t process_count();  // 1 likewise

// For an error that ends this process: reports it to the others, so that none of them waits for it. Returns whether
// this process shows a message; `message` then names the failed rank. The group cannot be used afterwards.
bool report_failure(ErrorKind kind, std::string& message);

}  // namespace transom
