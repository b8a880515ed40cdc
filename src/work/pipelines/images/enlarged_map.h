// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace transom {

// Maps [C, h, w] as they are at the extents of a picture, a line at a time, so that the whole never lies in memory:
// torch's bilinear interpolation without align_corners.
class EnlargedMaps {
 public:
  EnlargedMaps(std::span<const float> values, int64_t maps, int64_t h, int64_t w, int64_t height, int64_t width);
  // Line y of map c, `width` values.
  void line(int64_t c, int64_t y, std::span<float> out) const;
  int64_t maps() const { return maps_; }
  int64_t height() const { return static_cast<int64_t>(down_.size()); }
  int64_t width() const { return static_cast<int64_t>(across_.size()); }

 private:
  struct Tap {
    int64_t first, second;
    float weight;  // of the second
  };
  static std::vector<Tap> taps(int64_t from, int64_t to);
  std::span<const float> values_;
  int64_t maps_, h_, w_;
  std::vector<Tap> down_, across_;
};

// For each pixel the map with the largest value, the first of equal ones: [height, width].
std::vector<int32_t> largest_maps(const EnlargedMaps& maps);

}  // namespace transom
