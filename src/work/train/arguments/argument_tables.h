// SPDX-License-Identifier: Apache-2.0
// The tables of `transom train`.
#pragma once

#include <initializer_list>
#include <string>

#include "work/train/arguments/argument_table.h"

namespace transom {

// Whether the argument was given; of a record that was not parsed, nothing was.
bool is_given(const TrainArguments& arguments, std::string_view name);

// Refuses those of the arguments that were given: "--NAME: `why`".
void refuse_given(const TrainArguments& arguments, std::initializer_list<const char*> names, const std::string& why);

ArgumentTable training_table();     // the fields of TrainingArguments
ArgumentTable script_table();       // the fields of ScriptArguments
ArgumentTable adapter_arguments();  // those of them that are about adapters

}  // namespace transom
