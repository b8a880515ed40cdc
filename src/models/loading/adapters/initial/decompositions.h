// SPDX-License-Identifier: Apache-2.0
// The parts of matrix decompositions that adapters begin with, computed in f64.
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

// The `rank` greatest singular values of a matrix [rows, columns] and their vectors; signs are free. By iteration of a
// subspace with a few more vectors than are asked for (Halko et al., "Finding structure with randomness", 2011) until
// the values settle.
struct PartOfSvd {
  std::vector<float> left;     // [rows, rank]
  std::vector<double> values;  // [rank], descending
  std::vector<float> right;    // [rank, columns]
};
PartOfSvd part_of_svd(const std::vector<float>& matrix, int64_t rows, int64_t columns, int64_t rank);

}  // namespace transom
