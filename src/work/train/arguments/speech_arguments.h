// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "work/train/arguments/argument_table.h"

namespace transom {

// The fields of ScriptArguments that are about speech recognition.
ArgumentTable speech_arguments();

}  // namespace transom
