// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "work/train/tasks/task_data.h"

namespace transom {

// TRL's SFTTrainer: chats, prompts with completions, instructions with answers, or texts, a row each.
void prepare_supervised_fine_tuning(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// The values of SFTConfig where they differ from TrainingArguments', for what was not given.
void supervised_fine_tuning_defaults(TrainArguments& arguments);

}  // namespace transom
