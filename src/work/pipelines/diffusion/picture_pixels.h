// SPDX-License-Identifier: Apache-2.0
// Pictures and masks as the numbers that diffusion pipelines read, and back: those of diffusers' VaeImageProcessor.
#pragma once

#include <span>
#include <vector>

#include "inputs/images/image.h"
#include "transom/media.h"
#include "transom/tensor.h"

namespace transom {

// [3, height, width] from -1 to 1; a picture of other extents is resampled.
std::vector<float> signed_pixels(const Image& image, int64_t height, int64_t width);
// The same from 0 to 1.
std::vector<float> unit_pixels(const Image& image, int64_t height, int64_t width);
// [height, width]: 1 where the mask is white, else 0; grey as Pillow makes it.
std::vector<float> white_places(const Image& mask, int64_t height, int64_t width);
// Refuses samples with numbers that are not finite.
void expect_finite(std::span<const float> sample);
// Of a sample [1, C, H, W] from -1 to 1, of one channel or three.
Picture picture_of_sample(const Tensor& sample);

}  // namespace transom
