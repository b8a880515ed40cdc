// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "work/train/tasks/task_data.h"

namespace transom {

// TRL's GRPOTrainer, RLOOTrainer and OnlineDPOTrainer: a model writes completions of prompts and learns from their
// rewards.
void prepare_policy_training(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);

// The values of their configurations where they differ from TrainingArguments', for what was not given.
void group_policy_defaults(TrainArguments& arguments);
void leave_one_out_defaults(TrainArguments& arguments);
void online_preference_defaults(TrainArguments& arguments);

}  // namespace transom
