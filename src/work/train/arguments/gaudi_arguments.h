// SPDX-License-Identifier: Apache-2.0
// The arguments that Optimum Habana adds to TrainingArguments.
#pragma once

#include "work/train/arguments/argument_table.h"

namespace transom {

ArgumentTable gaudi_table();  // of TrainArguments::training

// What these arguments, and the gaudi_config.json that they name, say of the device, the mode and the precision;
// refuses what contradicts the others.
void resolve_gaudi(TrainArguments& arguments);

}  // namespace transom
