// SPDX-License-Identifier: Apache-2.0
// Configurations of DeepSpeed and Accelerate that say how a run is spread: what they ask for becomes arguments of ours.
#pragma once

#include "transom/training_arguments.h"
#include "work/train/arguments/argument_table.h"

namespace transom {

struct ForeignConfigs {
  JsonText deepspeed;           // a configuration of DeepSpeed
  JsonText parallelism_config;  // Accelerate's ParallelismConfig
};
ArgumentTable foreign_table();  // of ForeignConfigs

// Sets the arguments that the configurations stand for. Values that are "auto" are those of the arguments, and others
// must agree with them, as Transformers has it. Throws an Error of kind kUsage that names the key where the two differ,
// and for what is not offered. What is taken without an effect is said in `notes`.
void apply_foreign_configs(const ForeignConfigs& configs, TrainingArguments& arguments,
                           std::vector<std::string>& notes);

}  // namespace transom
