// SPDX-License-Identifier: Apache-2.0
// Texts that an evaluation shows beside what was wanted.
#pragma once

#include <string>
#include <vector>

#include "transom/training_arguments.h"

namespace transom {

// How many a run shows: --num_samples_to_print, else `otherwise`; none with --json, which is for machines.
int64_t samples_to_show(const ScriptArguments& script, int64_t otherwise);
// Says the first `count` of them, by the process that writes the log.
void show_samples(int64_t count, const std::vector<std::string>& wanted, const std::vector<std::string>& written);

}  // namespace transom
