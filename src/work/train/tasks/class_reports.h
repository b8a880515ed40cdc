// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "work/train/tasks/task_data.h"

namespace transom {

// Where the model gives classes of rows or of tokens, the evaluation that ends a run says how each class is found, and
// writes which is taken for which to confusion_matrix.svg.
void add_class_report(const TrainArguments& arguments, TaskSetup& setup);

}  // namespace transom
