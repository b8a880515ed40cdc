// SPDX-License-Identifier: Apache-2.0
// Gradients of several processes: averaged in pieces, so that one piece travels while the next is computed (Li et al.,
// PyTorch Distributed, VLDB 2020).
#pragma once

#include <cstdint>
#include <vector>

#include "transom/tensor.h"

namespace transom {

// Which of the tensors travel together, in the order in which they are ready: from the last to the first, as layers are
// passed backwards. A piece is closed when it has `bytes`, the first one at `first_bytes`, so that it starts early; it
// holds one element type. Undefined tensors are left out.
std::vector<std::vector<size_t>> plan_buckets(const std::vector<Tensor>& tensors, int64_t bytes, int64_t first_bytes);

// The means of the tensors over the processes, undefined where they are. All give the same shapes.
std::vector<Tensor> mean_over_processes(const std::vector<Tensor>& tensors, double megabytes);

}  // namespace transom
