// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/optim.h"

namespace transom {

// Adds up the gradients [N, D] of rows that were used several times; indices [N].
RowGradient coalesced(const Tensor& indices, const Tensor& rows);

}  // namespace transom
