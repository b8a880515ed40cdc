// SPDX-License-Identifier: Apache-2.0
// What the tasks on images share.
#pragma once

#include "images/image_processor.h"
#include "pipelines/pipeline.h"

namespace transom {

struct ImageModel {
  std::unique_ptr<Model> model;
  ImageProcessor processor;

  static ImageModel load(const std::string& directory, const LoadOptions& options) {
    return {Model::from_pretrained(directory, options), ImageProcessor::from_pretrained(directory)};
  }
  // pixel_values [1, 3, H, W] of a file: a path, or an object with "image".
  Tensor pixel_values(const Json& input) const;
};

}  // namespace transom
