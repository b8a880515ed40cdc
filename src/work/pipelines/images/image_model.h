// SPDX-License-Identifier: Apache-2.0
// What the tasks on images share.
#pragma once

#include <span>

#include "files/hub/resolve.h"
#include "inputs/images/image_processor.h"
#include "models/loading/weights/missing_weights.h"
#include "work/pipelines/pipeline.h"

namespace transom {

struct ImageModel {
  std::unique_ptr<Model> model;
  ImageProcessor processor;

  static ImageModel load(const std::string& directory, const LoadOptions& options) {
    return {load_trained(directory, options), ImageProcessor::from_pretrained(directory_of_model(directory))};
  }
  ImageProcessor::Pixels pixels(const TaskInput& input) const;

  struct Extents {
    int64_t height = 0, width = 0;
  };
  // What the processor makes of a picture, and how large that was.
  struct Prepared {
    ImageProcessor::Pixels pixels;
    Extents picture;
  };
  Prepared prepared(const TaskInput& input) const;

  // The part of the output `name` that belongs to an image: [1, ...].
  struct Row {
    Shape shape;
    std::vector<float> values;
    Extents picture;  // of the image as it came
  };
  // The parts of several outputs that belong to an image, in the order of `names`, each [1, ...].
  struct Outputs {
    std::vector<FeatureArray> values;
    Extents picture;
  };
  std::vector<Outputs> outputs(const std::vector<TaskInput>& inputs, const std::vector<std::string>& names,
                               int64_t batch_size) const;
  // So many images as `batch_size` says go through the model at once, if they are of one size. Files are read and
  // prepared while the model computes with those before.
  std::vector<Row> rows(const std::vector<TaskInput>& inputs, const std::string& name, int64_t batch_size) const;
};

// The loader of a task that is made of such a model.
template <typename Task>
std::unique_ptr<Pipeline> load_image_task(const std::string& directory, const LoadOptions& options,
                                          const std::string& /*task*/) {
  return std::make_unique<Task>(ImageModel::load(directory, options));
}

// The picture of an input, in RGB.
Image image_of(const PictureSource& source);
// The arguments of a model for images of one size, or that are laid out as as many patches.
NamedTensors inputs_of_images(std::span<const ImageProcessor::Pixels> images);
// [B, 3, H, W] of images of one size.
Tensor pixel_values(std::span<const ImageProcessor::Pixels> images);

}  // namespace transom
