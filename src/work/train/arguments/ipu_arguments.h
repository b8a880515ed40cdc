// SPDX-License-Identifier: Apache-2.0
// What an IPUConfig of Optimum Graphcore (ipu_config.json) says of a run: its processes, one for each replica, and its
// update. The rest of it is read by the device, which finds the file by TRANSOM_IPU_CONFIG.
#pragma once

#include "transom/training_arguments.h"

namespace transom {

struct IpuRun {
  int64_t training = 1, inference = 1;  // replicas
  int64_t gradient_accumulation_steps = 1;
  bool shards_optimizer = false;  // replicated_tensor_sharding
  bool recomputes = false;        // recompute_checkpoint_every_layer
};
// Of the file, or of ipu_config.json in the folder. Throws an Error of kind kUsage that names the file and the field.
IpuRun read_ipu_run(const std::string& file);

// For a run on the ipu device with a TRANSOM_IPU_CONFIG: replicated_tensor_sharding becomes zero_stage 1,
// recompute_checkpoint_every_layer activation checkpointing, and the file's gradient_accumulation_steps hold where the
// user gave none, as with IPUTrainingArguments.
void resolve_ipu(TrainArguments& arguments, bool accumulation_is_given);

// Whether the file has layers recomputed, where `device` (TRANSOM_DEVICE if empty) is the ipu device and there is one.
bool ipu_recomputes(const std::string& device);

// How many processes the command itself has to start for such a run: 1 where it is to go on as it is. Refuses another
// number of processes of a launcher than the file says.
int64_t ipu_processes_to_start(const TrainArguments& arguments, bool evaluates);

}  // namespace transom
