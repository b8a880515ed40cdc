// SPDX-License-Identifier: Apache-2.0
// Several processes that train as one, a device each: torchrun, mpirun or srun launch them, or whoever sets RANK,
// WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT.
#pragma once

#include <cstdint>
#include <string>

#include "transom/error.h"

namespace transom {

// Where this process stands among those that were launched together.
struct Launch {
  int64_t rank = 0, ranks = 1;
  int64_t local_rank = 0, local_ranks = 1;  // on this server
  std::string master_address;               // of rank 0's server
  uint16_t master_port = 0;
  std::string job;  // what its launcher calls it; processes of other jobs are refused
};

// Read from the environment: torchrun's names, else those of Open MPI, MVAPICH, MPICH and Intel MPI, Slurm, or another
// launcher that speaks PMI. Without any, one process. Throws an Error of kind kUsage for values that contradict each
// other, and where a launcher does not tell of how many processes this is one.
Launch launch_of_environment();

// The device that this process takes when the user says `device` (empty: nothing): of several of a kind, the one of its
// local rank.
std::string device_of_process(const std::string& device);

struct ProcessGroupOptions {
  std::string backend;    // ddp_backend: "mpi", "gloo", "hccl"; empty: what suits the device and the launcher
  double timeout = 1800;  // ddp_timeout: for how many seconds ranks wait for each other
};

// Meets the other processes of the launch, if there are any, and joins the device in use to theirs; call it after
// set_device. From then on a Trainer is one of them. Throws where one does not come in time, and where this process is
// alone though its Slurm job has several tasks.
void join_process_group(const ProcessGroupOptions& options = {});
// Takes leave of the others when all is done.
void leave_process_group();

int64_t process_rank();   // 0 where there is one process
int64_t process_count();  // 1 likewise

// For an error that ends this process: tells the others, so that none waits for ever. Whether this process is the one
// that shows a message; `message` then says what befell which rank. The group is of no use afterwards.
bool report_failure(ErrorKind kind, std::string& message);

}  // namespace transom
