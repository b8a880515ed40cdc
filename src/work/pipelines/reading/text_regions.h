// SPDX-License-Identifier: Apache-2.0
// From a map of chances that a pixel is of text to the lines of text (Liao et al., 2020: differentiable binarization),
// as PaddleOCR's and RapidOCR's post-processing finds them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "work/pipelines/reading/quadrilateral.h"

namespace transom {

struct RegionRule {
  double threshold = 0.3;      // of a pixel
  double box_threshold = 0.5;  // of the mean of a region
  double unclip_ratio = 1.6;   // maps show text shrunk: how far it reaches beyond
};

// In a picture of `width` x `height`, of which the map has `map_width` x `map_height` numbers; in the order of reading.
std::vector<Quadrilateral> text_regions(std::span<const float> map, int64_t map_width, int64_t map_height,
                                        int64_t width, int64_t height, const RegionRule& rule);

}  // namespace transom
