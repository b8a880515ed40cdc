// SPDX-License-Identifier: Apache-2.0
// Rows of a table of tokens that are trained while the others stay.
#pragma once

#include "models/loading/adapters/adapter_making.h"

namespace transom {

// What `trainable_token_indices` of a LoRA asks for: ids of the table of tokens, or by the names of modules.
void attach_trainable_tokens(AdapterMaking& making);

}  // namespace transom
