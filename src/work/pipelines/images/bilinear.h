// SPDX-License-Identifier: Apache-2.0
// Pictures resized as OpenCV does, whose weights networks outside of Transformers are trained with: between the two
// nearest pixels of each axis, also where a picture shrinks.
#pragma once

#include "inputs/images/image.h"

namespace transom {

// cv2.resize with INTER_LINEAR, in its fixed point of 11 bits.
Image resize_linear(const Image& image, int64_t width, int64_t height);

}  // namespace transom
