// SPDX-License-Identifier: Apache-2.0
// The arguments that plugins of devices contribute, as their descriptions list them: their names are known without the
// plugin, their meaning is asked of it.
#pragma once

#include "work/train/arguments/argument_table.h"

namespace transom {

// Of TrainingArguments::device_arguments. The rows live as long as the process; those of a plugin that is not installed
// are refused with its name. `of_training`: also those that mean nothing where a model is evaluated.
std::vector<Argument> device_table(bool of_training = true);

// Asks the plugins whose arguments were given, or whose device is asked for, what they mean, and sets it; use_cpu too.
// Throws an Error of kind kUsage for what a plugin refuses.
void resolve_device_arguments(TrainArguments& arguments);

// How many processes the command itself has to start, as a plugin says it for such a run: 1 where it is to go on as it
// is.
int64_t processes_of_device(const TrainArguments& arguments, bool evaluates);

}  // namespace transom
