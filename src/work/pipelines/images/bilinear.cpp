// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/images/bilinear.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace transom {
namespace {

constexpr int kBits = 11;

struct LinearTap {
  int64_t first, second;
  int32_t weights[2];
};

std::vector<LinearTap> linear_taps(int64_t from, int64_t to) {
  std::vector<LinearTap> taps;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (int64_t i = 0; i < to; ++i) {
    const auto place = static_cast<float>((static_cast<double>(i) + 0.5) * scale - 0.5);
    auto first = static_cast<int64_t>(std::floor(place));
    float part = place - static_cast<float>(first);
    if (first < 0) first = 0, part = 0;
    if (first >= from - 1) first = from - 1, part = 0;
    const auto weight = [](float x) { return static_cast<int32_t>(std::lrint(x * (1 << kBits))); };
    taps.push_back({first, std::min(first + 1, from - 1), {weight(1 - part), weight(part)}});
  }
  return taps;
}

}  // namespace

Image resize_linear(const Image& image, int64_t width, int64_t height) {
  if (width == image.width && height == image.height) return image;
  Image result(width, height);
  const std::vector<LinearTap> columns = linear_taps(image.width, width), rows = linear_taps(image.height, height);
  for (int64_t y = 0; y < height; ++y) {
    const LinearTap& row = rows[static_cast<size_t>(y)];
    const uint8_t *above = image.row(row.first), *below = image.row(row.second);
    uint8_t* out = result.row(y);
    for (const LinearTap& column : columns)
      for (int64_t c = 0; c < 3; ++c) {
        const auto across = [&](const uint8_t* line) {
          return line[3 * column.first + c] * column.weights[0] + line[3 * column.second + c] * column.weights[1];
        };
        // As OpenCV's vector code rounds: four bits of the first pass are dropped before the second.
        const int32_t top = ((across(above) >> 4) * row.weights[0]) >> 16,
                      bottom = ((across(below) >> 4) * row.weights[1]) >> 16;
        *out++ = static_cast<uint8_t>(std::clamp((top + bottom + 2) >> 2, 0, 255));
      }
  }
  return result;
}

}  // namespace transom
