// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "work/train/tasks/task_data.h"

namespace transom {

// TRL's DPOTrainer, KTOTrainer and RewardTrainer, and its experimental ORPOTrainer and CPOTrainer.
void prepare_direct_preferences(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
void prepare_rated_answers(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
void prepare_reward_model(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
void prepare_odds_ratio(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
void prepare_contrastive_preferences(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);

// The values of their configurations where they differ from TrainingArguments', for what was not given.
void preference_defaults(TrainArguments& arguments);
void rated_answer_defaults(TrainArguments& arguments);
void reward_defaults(TrainArguments& arguments);

}  // namespace transom
