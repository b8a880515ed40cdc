// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "work/train/tasks/task_data.h"

namespace transom {

// sentence-transformers' CrossEncoderTrainer: a model that reads a query and a document together and gives a score.
void prepare_text_ranking(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);

}  // namespace transom
