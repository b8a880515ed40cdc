// SPDX-License-Identifier: Apache-2.0
// What DINOv3's processor makes of a picture.
#include <array>

#include "inputs/images/image_processor.h"

namespace transom {

// Numbers from 0 to 1 are resized, and what comes of them is normalised.
ImageProcessor::Pixels ImageProcessor::resized_last(const Image& image) const {
  std::array<float, 256> levels{};
  for (size_t value = 0; value < levels.size(); ++value)
    levels[value] = static_cast<float>(static_cast<double>(value) * rescale_factor_);
  const auto [height, width] = size_.of(image);
  Pixels pixels{height, width, resize_levels(image, levels, width, height, resampling_)};
  const size_t plane = pixels.values.size() / 3;
  for (size_t i = 0; do_normalize_ && i < pixels.values.size(); ++i)
    pixels.values[i] = (pixels.values[i] - mean_[i / plane]) / deviation_[i / plane];
  return pixels;
}

}  // namespace transom
