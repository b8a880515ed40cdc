// SPDX-License-Identifier: Apache-2.0
// Pictures that are filled up with zeros to the size of others.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "inputs/images/image_processor.h"

namespace transom {

// Zeros at the right and below, to pad_size where there is one.
void ImageProcessor::pad(Pixels& pixels) const {
  const int64_t height = pad_size_.height > 0 ? pad_size_.height : pixels.height,
                width = pad_size_.height > 0 ? pad_size_.width : pixels.width;
  if (height < pixels.height || width < pixels.width)
    fail("pad_size: {} x {} does not hold a picture that becomes {} x {} pixels", width, height, pixels.width,
         pixels.height);
  expect_extents(width, height);
  pixels.fill_up(height, width);
}

void ImageProcessor::Pixels::fill_up(int64_t to_height, int64_t to_width) {
  const auto extent = static_cast<size_t>(height * width);
  const size_t planes = extent == 0 ? 0 : values.size() / extent;
  if (mask.empty()) mask.assign(planes / 3 * extent, 1);
  if (to_height == height && to_width == width) return;
  const auto filled = [&](const auto& rows, size_t count, auto& into) {
    into.assign(count * static_cast<size_t>(to_height * to_width), 0);
    for (size_t plane = 0; plane < count; ++plane)
      for (int64_t y = 0; y < height; ++y)
        std::copy_n(rows.begin() + (static_cast<int64_t>(plane) * height + y) * width, width,
                    into.begin() + (static_cast<int64_t>(plane) * to_height + y) * to_width);
  };
  std::vector<float> padded;
  std::vector<int64_t> padded_mask;
  filled(values, planes, padded);
  filled(mask, planes / 3, padded_mask);
  values = std::move(padded), mask = std::move(padded_mask);
  height = to_height, width = to_width;
}

}  // namespace transom
