// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/sharding/layout.h"
#include "transom/training_arguments.h"

namespace transom {

// How the arguments spread a run over `ranks` processes; those that no argument speaks of are data parallel. Throws an
// Error of kind kUsage for sizes that do not fit, and for what is not offered.
ShardingLayout sharding_layout(const TrainingArguments& arguments, int64_t ranks);

}  // namespace transom
