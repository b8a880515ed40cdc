// SPDX-License-Identifier: Apache-2.0
// How pages are brought to one size, as the processor of Donut has it: turned so that the long edges lie along each
// other, resized, shrunk to the page, in the middle of black.
#pragma once

#include <array>

#include "inputs/images/image.h"

namespace transom {

class Config;

class PageFit {
 public:
  explicit PageFit(const Config& config);
  Image operator()(const Image& image, int64_t height, int64_t width, Resampling resampling) const;

 private:
  bool aligns_, resizes_, shrinks_, fills_;
};

// In the middle of a square of the mean colour of 0 to 1 (LLaVA).
Image in_square(const Image& image, const std::array<float, 3>& mean_colour);

}  // namespace transom
