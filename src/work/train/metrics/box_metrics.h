// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transom/trainer.h"

namespace transom {

// What a picture holds, or what is found in it. Boxes are (left, top, width, height) in pixels.
struct PictureBoxes {
  std::vector<std::array<double, 4>> boxes;
  std::vector<int64_t> classes;
  std::vector<double> scores;  // of what is found
};

// Average precision and recall as pycocotools' COCOeval has them for boxes: `map`, the mean over classes and overlaps
// from 0.5 to 0.95; map_50 and map_75; map_small, map_medium and map_large by the area of the labelled boxes; mar_1,
// mar_10 and mar_100 with so many boxes a picture and class; mar_small, mar_medium and mar_large; map_NAME and
// mar_100_NAME of each class. -1 where nothing is labelled.
Metrics box_metrics(std::span<const PictureBoxes> labelled, std::span<const PictureBoxes> found,
                    const std::vector<std::string>& classes);

// Objects of any form.
struct PictureObjects {
  std::vector<int64_t> classes;
  std::vector<double> areas;   // in pixels
  std::vector<double> scores;  // of what is found
};
struct ComparedPicture {
  PictureObjects labelled, found;
  std::vector<double> overlaps;  // [found, labelled]: of what they cover the part that both cover
};
Metrics object_metrics(std::span<const ComparedPicture> pictures, const std::vector<std::string>& classes);

}  // namespace transom
