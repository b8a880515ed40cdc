// SPDX-License-Identifier: Apache-2.0
// Where the tiles of Winograd's F(2x2, 3x3) lie, for floats and for integers.
#pragma once

#include <algorithm>
#include <utility>

#include "cpu/convolution/convolution_shape.h"

namespace transom::cpu {

// The tiles of a convolution with windows of 3x3 that move place by place: of x [N, C, H, W] to y [N, K, H', W'].
struct WinogradTiles {
  static constexpr int64_t kPlaces = 16;  // of a tile of x, and products of a tile

  Shape x, y;
  int64_t low[2];
  bool turned;  // the window, and the weights' two axes of channels

  explicit WinogradTiles(const ConvolutionShape& s)
      : x(s.x), y(s.y), turned(s.kind == ConvolutionKind::kInputGradient) {
    if (turned) std::swap(x, y);
    for (size_t i = 0; i < 2; ++i) low[i] = turned ? 2 - s.low[i] : s.low[i];
  }

  static bool has_tiles(const ConvolutionShape& s) {
    const auto all = [](const Shape& extents, int64_t value) {
      return std::all_of(extents.begin(), extents.end(), [=](int64_t i) { return i == value; });
    };
    return s.w.size() == 4 && s.groups == 1 && s.w[2] == 3 && s.w[3] == 3 && all(s.strides, 1) && all(s.dilations, 1);
  }

  // Rows of tiles are counted through all images.
  int64_t rows_of_image() const { return (y[2] + 1) / 2; }
  int64_t tile_rows() const { return x[0] * rows_of_image(); }
  int64_t tile_columns() const { return (y[3] + 1) / 2; }
  int64_t tiles() const { return tile_rows() * tile_columns(); }

  // Of y, rows of all images counted too: those of a row of tiles.
  int64_t first_row(int64_t row) const { return row / rows_of_image() * y[2] + row % rows_of_image() * 2; }
  int64_t end_row(int64_t row) const {
    return row / rows_of_image() * y[2] + std::min(row % rows_of_image() * 2 + 2, y[2]);
  }
};

}  // namespace transom::cpu
