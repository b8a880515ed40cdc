// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "inputs/images/image.h"
#include "transom/tasks.h"

namespace transom {

// The picture in RGB with a frame around each object, its class and score above; objects of one class have one colour.
// What lies outside of the picture is left out.
Picture with_boxes(const Image& image, const std::vector<DetectedObject>& objects);

// The picture in RGB, with the segments as coloured glass over it, and the class and score of each in its middle. What
// lies outside of the picture is left out.
Picture with_segments(const Image& image, const std::vector<Segment>& segments);

// Capitals, digits and a few signs, 3 x 5 dots each times `scale`, from (left, top) on: others are question marks.
void draw_text(Image& image, int64_t left, int64_t top, std::string_view text, int64_t scale,
               std::array<uint8_t, 3> color);

}  // namespace transom
