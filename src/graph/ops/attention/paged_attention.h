// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/ops.h"

namespace transom {

// paged_attention of transom/ops.h with the blocks one behind the other: k_rows [N size, G, d], v_rows [N size, G, e].
// So scatter can write into them where they are. With sinks [H], where these are defined, as sink_attention has them.
Tensor paged_attention(const Tensor& q, const Tensor& k_rows, const Tensor& v_rows, int64_t block_size,
                       const Tensor& block_table, const Tensor& lengths, const AttentionOptions& options,
                       const Computing& computing TRANSOM_DEFAULT({}), const Tensor& sinks = {});

}  // namespace transom
