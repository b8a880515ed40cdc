// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/images/masks/mask_crops.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"

namespace transom {

std::vector<std::array<double, 2>> MaskCrop::points() const {
  std::vector<std::array<double, 2>> points;
  const double n = static_cast<double>(points_per_side);
  const auto place = [&](int64_t i, int64_t extent) {
    return (static_cast<double>(i) + 0.5) / n * static_cast<double>(extent);
  };
  for (int64_t y = 0; y < points_per_side; ++y)
    for (int64_t x = 0; x < points_per_side; ++x) points.push_back({place(x, width()), place(y, height())});
  return points;
}

std::vector<MaskCrop> mask_crops(int64_t width, int64_t height, const MaskCropOptions& options) {
  std::vector<MaskCrop> crops{{0, 0, width, height, options.points_per_side}};
  double fewer = 1;
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const int64_t n = int64_t{2} << layer;
    fewer *= static_cast<double>(options.fewer_points);
    const auto points = static_cast<int64_t>(static_cast<double>(options.points_per_side) / fewer);
    if (points < 1) fail("crop_n_points_downscale_factor: expected a point or more in layer {}, found none", layer + 1);
    const auto shared = static_cast<int64_t>(options.overlap * static_cast<double>(std::min(width, height)) *
                                             (2 / static_cast<double>(n)));
    const auto side = [&](int64_t extent) {
      return static_cast<int64_t>(std::ceil(static_cast<double>(shared * (n - 1) + extent) / static_cast<double>(n)));
    };
    const int64_t w = side(width), h = side(height);
    for (int64_t x = 0; x < n; ++x)
      for (int64_t y = 0; y < n; ++y) {
        const int64_t left = (w - shared) * x, top = (h - shared) * y;
        const MaskCrop crop{left, top, std::min(left + w, width), std::min(top + h, height), points};
        if (left < 0 || top < 0 || crop.width() < 1 || crop.height() < 1)
          fail("crops_n_layers: a picture of {} x {} pixels has no {} x {} parts that overlap by {} pixels", width,
               height, n, n, shared);
        crops.push_back(crop);
      }
  }
  return crops;
}

bool is_cut_off(const MaskBox& box, const MaskCrop& crop, int64_t width, int64_t height) {
  constexpr int64_t kNear = 20;
  const auto near = [](int64_t a, int64_t b) { return std::abs(a - b) <= kNear; };
  const auto ends_at = [&](int64_t place, int64_t of_crop, int64_t of_picture) {
    return near(place, of_crop) && !near(place, of_picture);
  };
  return ends_at(box.left + crop.left, crop.left, 0) || ends_at(box.top + crop.top, crop.top, 0) ||
         ends_at(box.right + crop.left, crop.right, width) || ends_at(box.bottom + crop.top, crop.bottom, height);
}

}  // namespace transom
