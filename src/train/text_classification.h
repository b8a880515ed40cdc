// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/columns.h"
#include "train/task_data.h"

namespace transom {

// run_classification: one or two columns of text and a label, tokenised as batches are made. Fills in the model with
// its head, both data sets, and the saving of the tokenizer.
void prepare_text_classification(const TrainArguments& arguments, const std::optional<Dataset>& train,
                                 const std::optional<Dataset>& validation, TaskSetup& setup);

}  // namespace transom
