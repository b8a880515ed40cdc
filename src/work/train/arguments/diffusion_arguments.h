// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "work/train/arguments/argument_table.h"

namespace transom {

// The fields of ScriptArguments that are about diffusion, and the names that the scripts of Diffusers have for fields
// of all tasks.
ArgumentTable diffusion_arguments();

}  // namespace transom
