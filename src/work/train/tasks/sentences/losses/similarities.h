// SPDX-License-Identifier: Apache-2.0
// How close vectors are to each other, and how far, as sentence-transformers and torch.nn.functional define it.
#pragma once

#include <string>
#include <vector>

#include "transom/tensor.h"

namespace transom {

enum class Closeness { kCosine, kDot };
// a [N, D], b [M, D] -> [N, M]
Tensor closeness(const Tensor& a, const Tensor& b, Closeness how);
// Row by row: [N, D], [N, D] -> [N]
Tensor closeness_of_rows(const Tensor& a, const Tensor& b, Closeness how);
// |cos + sin| of the angles between them, where the halves of a vector are the parts of complex numbers (Li and Li,
// "AnglE-optimized text embeddings", 2023).
Tensor angle_closeness_of_rows(const Tensor& a, const Tensor& b);

enum class Distance { kCosine, kEuclidean, kManhattan };
// Row by row. `epsilon` is added to each difference, as torch.nn.functional.pairwise_distance does.
Tensor distance_of_rows(const Tensor& a, const Tensor& b, Distance how, double epsilon = 0);
// Of all rows of x [N, D] from each other, cosine or euclidean: [N, N]; exactly 0 on the diagonal of the latter.
Tensor distances(const Tensor& x, Distance how);

// log sum exp over the last axis.
Tensor log_sum_exp(const Tensor& x);
// [N, M] with 1 where the column is the row plus `offset`, else 0.
Tensor diagonal(int64_t rows, int64_t columns, int64_t offset = 0);

}  // namespace transom
