// SPDX-License-Identifier: Apache-2.0
// The tables of `transom train`.
#pragma once

#include "train/arguments/argument_table.h"

namespace transom {

ArgumentTable training_table();  // the fields of TrainingArguments
ArgumentTable script_table();    // the fields of ScriptArguments

}  // namespace transom
