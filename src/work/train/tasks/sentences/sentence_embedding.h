// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "work/train/tasks/task_data.h"

namespace transom {

// sentence-transformers' SentenceTransformerTrainer: a model whose vectors of texts are near where texts mean the same.
void prepare_sentence_embedding(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
// What its training arguments have other values for than TrainingArguments.
void sentence_defaults(TrainArguments& arguments);

}  // namespace transom
