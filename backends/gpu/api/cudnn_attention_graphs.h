// SPDX-License-Identifier: Apache-2.0
// The graphs that cuDNN knows as one flash kernel each: attention, two products around a softmax, and its gradient,
// five.
#pragma once

#include "gpu/api/attentions.h"
#include "gpu/api/cudnn_graph.h"

namespace transom::gpu {

// The tensors of the graphs that are memory, or one number of the host.
enum AttentionTensor : int64_t {
  kQ = 1,
  kK,
  kV,
  kOut,
  kScale,
  kHidden,      // of causal attention: what replaces the score of a key that is not seen, minus infinity
  kStatistics,  // f32 [batch, heads, queries]: each query's log of the sum of its exponentials
  kBias,
  kLeast,  // of biased attention: no score is less
  kDout,
  kDq,
  kDk,
  kDv,
  kShift  // f32 like the statistics: the sum of dout times out, which the gradient keeps meanwhile
};

// `statistics`: whether it writes them.
CudnnDescriptor attention_graph(CudnnGraph& graph, const AttentionShape& shape, void* handle, bool statistics);
// Of what attention made of the same tensors: it reads kOut and kStatistics.
CudnnDescriptor attention_gradient_graph(CudnnGraph& graph, const AttentionShape& shape, void* handle);

}  // namespace transom::gpu
