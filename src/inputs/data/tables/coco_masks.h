// SPDX-License-Identifier: Apache-2.0
// Masks of objects as COCO's files have them: polygons, or how long pixels stay the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace transom {

struct ObjectMask {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> pixels;  // row by row: 1 where the object is
};

// The mask that a `segmentation` says of a picture of these extents, as pycocotools' annToMask makes it: a list of
// polygons [x, y, x, y, ...], of which the object is the union, or {"size": [height, width], "counts": ...} with the
// lengths as numbers or in COCO's text. `where` is for errors.
ObjectMask object_mask(std::string_view segmentation, int64_t width, int64_t height, const std::string& where);

}  // namespace transom
