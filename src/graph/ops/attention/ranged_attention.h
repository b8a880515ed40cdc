// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/ops.h"

namespace transom {

// attention of transom/ops.h in which query t of row b sees, of the keys that `options` lets it see, those from
// ranges[b, t, 0] up to but not including ranges[b, t, 1]; ranges i64 [B, T, 2]. Of several texts in a row each is so
// attended to alone, and a device need not compute the others' scores. A query that sees no key gives 0.
Tensor ranged_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const Tensor& ranges,
                        const AttentionOptions& options, const Computing& computing, const Tensor& key = {},
                        double dropout = 0);

}  // namespace transom
