// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/ops.h"

namespace transom {

// attention of transom/ops.h with a sink (Xiao et al., "Efficient streaming language models with attention sinks",
// 2023): each head has one more score, sinks [H], whose value is zero, so that the weights of the keys need not sum to
// one.
Tensor sink_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const Tensor& sinks,
                      const AttentionOptions& options, const Computing& computing, const Tensor& key = {},
                      double dropout = 0);

}  // namespace transom
