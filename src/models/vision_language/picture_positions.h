// SPDX-License-Identifier: Apache-2.0
// Where tokens stand beside pictures whose places have a time, a row and a column (M-RoPE, Wang et al., "Qwen2-VL",
// 2024): those of a text at the same number on all three axes, those of a picture at its beginning and further by their
// time, row and column; what follows stands behind the largest of them.
#pragma once

#include <vector>

#include "models/generative.h"

namespace transom {

inline constexpr int64_t kPictureAxes = 3;

// How the places of a picture lie, row by row.
struct PictureExtents {
  int64_t frames = 1, height = 1, width = 1;
  int64_t places() const { return frames * height * width; }
};

struct PlacedPicture {
  std::vector<FilledPlaces> places;
  PictureExtents extents;
};

// Of `length` tokens without padding. The pictures are in order; the places of each lie side by side.
TextPositions picture_positions(int64_t length, const std::vector<PlacedPicture>& pictures);

}  // namespace transom
