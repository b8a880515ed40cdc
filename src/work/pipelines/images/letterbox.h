// SPDX-License-Identifier: Apache-2.0
// A picture in a frame of a certain size, with its own proportions.
#pragma once

#include <string>

#include "inputs/images/image.h"

namespace transom {

struct Letterbox {
  Image image;                      // of the frame's extents
  double scale_x = 1, scale_y = 1;  // from the picture to the frame
  double left = 0, top = 0;         // of the picture in the frame

  double x_in_picture(double x) const { return (x - left) / scale_x; }
  double y_in_picture(double y) const { return (y - top) / scale_y; }
};

// Where the picture lies, and what is around it.
enum class LetterboxFrame {
  kCentre,       // gray (114) on both sides, as YOLO v5 and v8 are trained
  kCorner,       // gray to the right and below, as YOLOX is
  kBlackSquare,  // black to the right and below to a square before it is resized
};
Letterbox in_frame(const Image& picture, int64_t width, int64_t height, LetterboxFrame frame);

}  // namespace transom
