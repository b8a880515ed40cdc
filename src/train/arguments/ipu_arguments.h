// SPDX-License-Identifier: Apache-2.0
// What an IPUConfig of Optimum Graphcore (ipu_config.json) says of the processes of a run: one for each replica. The
// rest of it is read by the device, which finds the file by TRANSOM_IPU_CONFIG.
#pragma once

#include "transom/training_arguments.h"

namespace transom {

struct IpuReplicas {
  int64_t training = 1, inference = 1;
  bool shards_optimizer = false;  // replicated_tensor_sharding
};
// Of the file, or of ipu_config.json in the folder. Throws an Error of kind kUsage that names the file and the field.
IpuReplicas read_ipu_replicas(const std::string& file);

// For a run on the ipu device with a TRANSOM_IPU_CONFIG: replicated_tensor_sharding becomes zero_stage 1.
void resolve_ipu(TrainArguments& arguments);

// How many processes the command itself has to start for such a run: 1 where it is to go on as it is. Refuses another
// number of processes of a launcher than the file says.
int64_t ipu_processes_to_start(const TrainArguments& arguments, bool evaluates);

}  // namespace transom
