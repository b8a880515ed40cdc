// SPDX-License-Identifier: Apache-2.0
// What the tasks on images share.
#pragma once

#include <span>

#include "hub/resolve.h"
#include "images/image_processor.h"
#include "models/loading/missing_weights.h"
#include "pipelines/pipeline.h"

namespace transom {

struct ImageModel {
  std::unique_ptr<Model> model;
  ImageProcessor processor;

  static ImageModel load(const std::string& directory, const LoadOptions& options) {
    return {load_trained(directory, options), ImageProcessor::from_pretrained(directory_of_model(directory))};
  }
  // Of a file: a path, or an object with "image".
  ImageProcessor::Pixels pixels(const Json& input) const;

  // The part of the output `name` that belongs to an image: [1, ...].
  struct Row {
    Shape shape;
    std::vector<float> values;
  };
  // So many images as `batch_size` says go through the model at once, if they are of one size. Files are read and
  // prepared while the model computes with those before.
  std::vector<Row> rows(const std::vector<Json>& inputs, const std::string& name, int64_t batch_size) const;
};

// [B, 3, H, W] of images of one size.
Tensor pixel_values(std::span<const ImageProcessor::Pixels> images);

}  // namespace transom
