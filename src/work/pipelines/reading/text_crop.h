// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "inputs/images/image.h"
#include "work/pipelines/reading/quadrilateral.h"

namespace transom {

// The picture within four corners, seen straight from above: cv2.warpPerspective with INTER_CUBIC and the border
// repeated. What is one and a half times as high as wide is turned to the left.
Image upright_crop(const Image& image, const Quadrilateral& corners);
// Turned by half a turn.
Image upside_down(const Image& image);

}  // namespace transom
