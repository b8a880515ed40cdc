// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "work/train/tasks/task_data.h"

namespace transom {

// Loads the model of a task whose loss is made of log probabilities of tokens. Refuses one that does not predict the
// next token, and one whose own loss has a term for the balance between experts: `losses` ("losses of preferences")
// have none.
void load_language_model(const TrainArguments& arguments, const char* losses, TaskSetup& setup);

}  // namespace transom
