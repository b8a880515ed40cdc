// SPDX-License-Identifier: Apache-2.0
// The part of a picture that a network of diffusion is trained on: resized so that it just fills the extents, cut out
// in the middle or at random, mirrored or not, as torchvision's transforms do it.
#pragma once

#include <vector>

#include "base/numbers/mt19937.h"
#include "inputs/images/image.h"

namespace transom {

struct PicturePart {
  int64_t top = 0, left = 0;  // in the resized picture
  bool mirrored = false;
};

struct PictureParts {
  int64_t height = 0, width = 0, channels = 3;
  Resampling resampling = Resampling::kBilinear;
  bool middle = false;  // else at random
  bool mirrors = false;
  bool mirrors_first = false;  // mirrored before it is cut
  bool squashes = false;       // the whole picture, or with `middle` its middle square, whatever its form

  // The picture that parts are cut out of.
  Image resized(const Image& image) const;
  // Whether the part of a picture of these extents is the same each time, but for the mirror.
  bool is_fixed(int64_t resized_height, int64_t resized_width) const;
  PicturePart draw(int64_t resized_height, int64_t resized_width, Mt19937& random) const;
  // [C, H, W] from -1 to 1.
  std::vector<float> pixels(const Image& resized, const PicturePart& part) const;
  // The same from 0 to 1.
  std::vector<float> unit_pixels(const Image& resized, const PicturePart& part) const;
};

// By its name in the scripts: lanczos, bilinear ...
Resampling resampling_named(const std::string& name);

}  // namespace transom
