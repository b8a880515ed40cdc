// SPDX-License-Identifier: Apache-2.0
// Training from scratch: a model that has a configuration and no weights yet.
#pragma once

#include <string>

#include "transom/training_arguments.h"

namespace transom {

// Where config_name is given and no model, as in run_mlm: makes a checkpoint in output_dir/new_model, of that
// configuration with weights drawn by the seed and the files of the tokenizer, and names it in the arguments. A
// checkpoint that is there already, from a run that is resumed, is used as it is.
void start_from_scratch(TrainArguments& arguments);

}  // namespace transom
