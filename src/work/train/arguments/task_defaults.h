// SPDX-License-Identifier: Apache-2.0
// Defaults of a task where they are others than those of TrainingArguments.
#pragma once

#include <string_view>

#include "work/train/arguments/argument_tables.h"

namespace transom {

// Sets a field that was not given; of a record that was not parsed, one that has its usual value.
template <typename T>
void set_default(const TrainArguments& arguments, std::string_view name, T& field, T usual, T value) {
  if (arguments.given ? !is_given(arguments, name) : field == usual) field = value;
}

}  // namespace transom
