// SPDX-License-Identifier: Apache-2.0
// What an IPUConfig of Optimum Graphcore (ipu_config.json) says of a run: its processes, one for each replica, and its
// update. The rest of it is read by the device, which finds the file by TRANSOM_IPU_CONFIG.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace transom::ipu {

struct IpuRun {
  int64_t training = 1, inference = 1;  // replicas
  int64_t gradient_accumulation_steps = 1;
  bool shards_optimizer = false;  // replicated_tensor_sharding
  bool recomputes = false;        // recompute_checkpoint_every_layer
};
// Of the file, or of ipu_config.json in the folder. Throws a Failure that names the file and the field.
IpuRun read_ipu_run(const std::string& file);

// The answer to a question of `settings` (transom/device_plugin.h), both as JSON; `replicas_here` are those that the
// machine has room for, 0 where nothing is known. replicated_tensor_sharding becomes zero_stage 1,
// recompute_checkpoint_every_layer activation checkpointing, and the file's gradient_accumulation_steps hold where the
// user gave none, as with IPUTrainingArguments. The file that --ipu_config_name names is that of TRANSOM_IPU_CONFIG
// from then on, for this process and those that it starts.
std::string settings_of(const std::string& request, const std::function<int64_t()>& replicas_here);

}  // namespace transom::ipu
