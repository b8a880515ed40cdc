// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "transom/ops.h"

namespace transom {

// Windows of M[0] x M[1] places of a grid that they fill: [B, h, w, C] -> [B h w / M[0] / M[1], M[0] M[1], C], row by
// row.
inline Tensor to_windows(const Tensor& x, std::array<int64_t, 2> M) {
  const int64_t B = x.dim(0), rows = x.dim(1) / M[0], columns = x.dim(2) / M[1], C = x.dim(3);
  const Tensor split = reshape(x, {B, rows, M[0], columns, M[1], C});
  return reshape(permute(split, {0, 1, 3, 2, 4, 5}), {B * rows * columns, M[0] * M[1], C});
}
inline Tensor to_windows(const Tensor& x, int64_t side) { return to_windows(x, std::array<int64_t, 2>{side, side}); }

// The way back, to B grids of (height, width).
inline Tensor from_windows(const Tensor& windows, std::array<int64_t, 2> M, int64_t B, std::array<int64_t, 2> grid) {
  const int64_t C = windows.dim(2);
  const Tensor split = reshape(windows, {B, grid[0] / M[0], grid[1] / M[1], M[0], M[1], C});
  return reshape(permute(split, {0, 1, 3, 2, 4, 5}), {B, grid[0], grid[1], C});
}
inline Tensor from_windows(const Tensor& windows, int64_t side, int64_t B, std::array<int64_t, 2> grid) {
  return from_windows(windows, std::array<int64_t, 2>{side, side}, B, grid);
}

}  // namespace transom
