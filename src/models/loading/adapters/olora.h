// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace transom {

// The first `rank` columns of Q and rows of R, where Q R is a matrix [rows, columns] and R's diagonal has the signs
// that LAPACK gives it. rank is at most the lesser of rows and columns.
struct PartOfQr {
  std::vector<float> q, r;  // [rows, rank], [rank, columns]
};
PartOfQr part_of_qr(const std::vector<float>& matrix, int64_t rows, int64_t columns, int64_t rank);

}  // namespace transom
