// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "transom/trainer.h"

namespace transom {

// Takes the metrics of kinds of entities (eval_LOC_precision, _recall, _f1, _number) out of an evaluation and writes
// them as a table, a line a kind, the most frequent first; empty where there are none.
std::string take_entity_table(Metrics& metrics);

}  // namespace transom
