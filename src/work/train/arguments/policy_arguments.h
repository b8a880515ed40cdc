// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "work/train/arguments/argument_table.h"

namespace transom {

// The fields of ScriptArguments that are about --task grpo and rloo.
ArgumentTable policy_arguments();

}  // namespace transom
