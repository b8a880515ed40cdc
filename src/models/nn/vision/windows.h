// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "transom/ops.h"

namespace transom {

// Windows of M x M places of a grid that they fill: [B, h, w, C] -> [B h w / M / M, M M, C], row by row.
inline Tensor to_windows(const Tensor& x, int64_t M) {
  const int64_t B = x.dim(0), rows = x.dim(1) / M, columns = x.dim(2) / M, C = x.dim(3);
  const Tensor split = reshape(x, {B, rows, M, columns, M, C});
  return reshape(permute(split, {0, 1, 3, 2, 4, 5}), {B * rows * columns, M * M, C});
}

// The way back, to B grids of (height, width).
inline Tensor from_windows(const Tensor& windows, int64_t M, int64_t B, std::array<int64_t, 2> grid) {
  const int64_t C = windows.dim(2);
  const Tensor split = reshape(windows, {B, grid[0] / M, grid[1] / M, M, M, C});
  return reshape(permute(split, {0, 1, 3, 2, 4, 5}), {B, grid[0], grid[1], C});
}

}  // namespace transom
