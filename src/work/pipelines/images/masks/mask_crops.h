// SPDX-License-Identifier: Apache-2.0
// Where a model that finds what is pointed at looks by itself (Kirillov et al., 2023): at points of a grid, in the
// picture and, where that is asked for, in parts of it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace transom {

struct MaskCrop {
  int64_t left = 0, top = 0, right = 0, bottom = 0;  // pixels of the picture
  int64_t points_per_side = 0;
  int64_t width() const { return right - left; }
  int64_t height() const { return bottom - top; }
  // In pixels of the part, (x, y), row by row.
  std::vector<std::array<double, 2>> points() const;
};

struct MaskCropOptions {
  int64_t layers = 0;             // layer i has 4^i parts
  double overlap = 512.0 / 1500;  // of parts of the first layer, of the picture's shorter side
  int64_t points_per_side = 32;   // of the whole picture
  int64_t fewer_points = 1;       // by so much in each layer
};
// The whole picture, then the parts of each layer.
std::vector<MaskCrop> mask_crops(int64_t width, int64_t height, const MaskCropOptions& options);

// What a mask covers, to its last pixels; zeros where it covers none.
struct MaskBox {
  int64_t left = 0, top = 0, right = 0, bottom = 0;
};
// Whether an object ends at an edge of the part that is no edge of the picture: then the part shows it cut off. `box`
// in pixels of the part.
bool is_cut_off(const MaskBox& box, const MaskCrop& crop, int64_t width, int64_t height);

}  // namespace transom
