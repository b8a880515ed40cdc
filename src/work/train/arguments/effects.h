// SPDX-License-Identifier: Apache-2.0
// Which arguments that were given do nothing in a run: those of other tasks, and those that need another argument.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "transom/training_arguments.h"

namespace transom {

// One sentence for each reason: "lora_r, lora_alpha have no effect without --use_peft". Given is what differs from its
// default. `task` is the name of the task, empty for rows that are tokenised already.
std::vector<std::string> without_effect(const TrainArguments& arguments, std::string_view task);

// The arguments that never have an effect in the program, each with the reason.
struct NeverActs {
  std::string_view name, reason;
};
std::vector<NeverActs> arguments_that_never_act();

}  // namespace transom
