// SPDX-License-Identifier: Apache-2.0
#include "pipelines/image_model.h"

namespace transom {

Tensor ImageModel::pixel_values(const Json& input) const {
  const ImageProcessor::Pixels pixels = processor(read_image(text_input(input, "image")));
  return Tensor::from(pixels.values, {1, 3, pixels.height, pixels.width});
}

}  // namespace transom
