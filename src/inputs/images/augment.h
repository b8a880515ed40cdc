// SPDX-License-Identifier: Apache-2.0
// Random changes of pictures for training, with the draws of torchvision's transforms.
#pragma once

#include "base/numbers/mt19937.h"
#include "inputs/images/image.h"

namespace transom {

constexpr double kLeastCropArea = 0.08;

// RandomResizedCrop (Szegedy et al., 2014): a part of least_area to 1 of the area, of a ratio between 3:4 and 4:3,
// resized.
Image random_resized_crop(const Image& image, int64_t height, int64_t width, Resampling resampling, Mt19937& random,
                          double least_area = kLeastCropArea);
// RandomHorizontalFlip: half of the pictures.
Image random_flip(const Image& image, Mt19937& random);
// Resized to just fill the extents.
Image filling(const Image& image, int64_t height, int64_t width, Resampling resampling);
// Where the middle of an extent begins, as CenterCrop rounds it.
int64_t middle_of(int64_t extent, int64_t part);
// filling(), and the middle of it.
Image filling_middle(const Image& image, int64_t height, int64_t width, Resampling resampling);

}  // namespace transom
