// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "inputs/images/image.h"

namespace transom {

// What OWLv2's processor makes of a picture at the top left of a black frame of these extents, which hold it: where it
// shrinks it is first blurred by a Gauss curve that grows with the factor, then taken linearly between pixels, in
// floating point, as scipy.ndimage's gaussian_filter and zoom do with mode mirror. `levels` is what a byte is worth.
// -> [3, height, width]. The frame itself is never made.
std::vector<float> smoothly_resized(const Image& image, const std::array<float, 256>& levels,
                                    std::array<int64_t, 2> frame, std::array<int64_t, 2> extents);

}  // namespace transom
