// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "transom/tasks.h"
#include "work/pipelines/images/image_model.h"

namespace transom {

// Pixels are cut off, as int() does; numbers that are none become the nearest that an int holds.
inline int64_t whole_pixel(float place) {
  constexpr float kMost = 2147483000.0f;
  return std::isnan(place) ? 0 : static_cast<int64_t>(std::clamp(place, -kMost, kMost));
}

// Of a centre, a width and a height in parts of the picture.
inline BoundingBox box_in_picture(std::span<const float> box, ImageModel::Extents picture) {
  const auto width = static_cast<float>(picture.width), height = static_cast<float>(picture.height);
  return {whole_pixel((box[0] - 0.5f * box[2]) * width), whole_pixel((box[1] - 0.5f * box[3]) * height),
          whole_pixel((box[0] + 0.5f * box[2]) * width), whole_pixel((box[1] + 0.5f * box[3]) * height)};
}

}  // namespace transom
