// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "transom/ops.h"

namespace transom {

// The sum of each bag's vectors (torch.nn.EmbeddingBag, mode "sum"): vectors [K, D] one bag behind the other, offsets
// i64 [B] of their beginnings -> [B, D]. The bag of a vector is the last that begins at or before it, so that empty
// bags give zeros.
Tensor bag_sums(const Tensor& vectors, const Tensor& offsets);

// The vectors of B samples: `dense` [B, D], and behind it the bag of each table [rows, D], which sums the rows that its
// indices [K] name; offsets i64 [tables, B] as above -> [B, 1 + tables, D]. All vectors have one type. An index outside
// of its table, and one before the first bag, are errors when it runs.
Tensor embedding_bags(const Tensor& dense, const Tensor& offsets, const std::vector<Tensor>& tables,
                      const std::vector<Tensor>& indices);

}  // namespace transom
