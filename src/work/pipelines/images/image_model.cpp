// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/images/image_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/threads/prefetcher.h"
#include "base/threads/threads.h"
#include "inputs/images/picture_source.h"

namespace transom {

using Pixels = ImageProcessor::Pixels;

Tensor pixel_values(std::span<const Pixels> images) {
  const int64_t height = images[0].height, width = images[0].width;
  std::vector<float> values;
  for (const Pixels& image : images) values.insert(values.end(), image.values.begin(), image.values.end());
  return Tensor::from(values, {static_cast<int64_t>(images.size()), 3, height, width});
}

namespace {

// RGB of pictures that are gray, or have an alpha channel, which is left out as of files.
Image image_of_picture(const Picture& picture) {
  const auto* values = std::get_if<std::vector<uint8_t>>(&picture.values);
  if (!values) fail("a picture: expected 8 bits a value, found 16");
  Image image(picture.width, picture.height);
  const auto channels = static_cast<size_t>(picture.channels);
  const size_t pixels = image.pixels.size() / 3;
  if (picture.channels < 1 || picture.channels > 4 || values->size() != pixels * channels)
    fail("a picture: expected 1 to 4 values for each of {} x {} pixels, found {} values of {} channels", picture.width,
         picture.height, values->size(), picture.channels);
  for (size_t i = 0; i < pixels; ++i)
    for (size_t c = 0; c < 3; ++c) image.pixels[3 * i + c] = (*values)[i * channels + (channels < 3 ? 0 : c)];
  return image;
}

struct ImageReader {
  Image operator()(const std::string& source) const { return read_picture(source); }
  Image operator()(const FileBytes& file) const {
    return decode_image(std::as_bytes(std::span(file.bytes)), "the input");
  }
  Image operator()(const Picture& picture) const { return image_of_picture(picture); }
};

// Of processors that lay out patches, of which a mask tells how many there are.
NamedTensors inputs_of_patches(std::span<const Pixels> images) {
  const auto count = static_cast<int64_t>(images.size());
  std::vector<float> values;
  std::vector<int64_t> mask;
  for (const Pixels& image : images) {
    values.insert(values.end(), image.values.begin(), image.values.end());
    mask.insert(mask.end(), image.mask.begin(), image.mask.end());
  }
  Shape shape = images[0].shape(), shape_of_mask = images[0].mask_shape();
  shape[0] = shape_of_mask[0] = count;
  NamedTensors inputs{{"pixel_values", Tensor::from(values, shape)}};
  inputs.set(images[0].mask_name(), Tensor::from(mask, shape_of_mask));
  for (size_t i = 0; i < images[0].beside.size(); ++i) {
    std::vector<int64_t> numbers;
    for (const Pixels& image : images) {
      const std::vector<int64_t>& own = image.beside.at(i).second;
      numbers.insert(numbers.end(), own.begin(), own.end());
    }
    const auto each = static_cast<int64_t>(images[0].beside[i].second.size());
    inputs.set(images[0].beside[i].first, Tensor::from(numbers, {count, each}));
  }
  return inputs;
}

}  // namespace

NamedTensors inputs_of_images(std::span<const Pixels> images) {
  if (images[0].patches > 0 && !images[0].mask.empty()) return inputs_of_patches(images);
  NamedTensors inputs{{"pixel_values", pixel_values(images)}};
  std::vector<int64_t> mask;
  for (const Pixels& image : images) mask.insert(mask.end(), image.mask.begin(), image.mask.end());
  if (std::find(mask.begin(), mask.end(), 0) != mask.end())  // one that hides nothing says nothing
    inputs.set("pixel_mask",
               Tensor::from(mask, {static_cast<int64_t>(images.size()), images[0].height, images[0].width}));
  return inputs;
}

Image image_of(const PictureSource& source) { return std::visit(ImageReader(), source); }

Pixels ImageModel::pixels(const TaskInput& input) const { return prepared(input).pixels; }

ImageModel::Prepared ImageModel::prepared(const TaskInput& input) const {
  const Image image = image_of(image_input(input).source);
  return {processor(image), {image.height, image.width}};
}

std::vector<ImageModel::Outputs> ImageModel::outputs(const std::vector<TaskInput>& inputs,
                                                     const std::vector<std::string>& names, int64_t batch_size) const {
  const NoGradient inference;
  const auto count = static_cast<int64_t>(inputs.size());
  Prefetcher<std::vector<Prepared>> batches((count + batch_size - 1) / batch_size, [&](int64_t number) {
    const int64_t first = number * batch_size;
    std::vector<Prepared> images(static_cast<size_t>(std::min(batch_size, count - first)));
    parallel_for(images.size(), [&](size_t i) { images[i] = prepared(inputs[static_cast<size_t>(first) + i]); });
    return images;
  });
  std::vector<Outputs> result;
  while (batches.left() > 0) {
    std::vector<Prepared> images = batches.next();
    for (auto first = images.begin(); first != images.end();) {
      const auto end = std::find_if(
          first, images.end(), [&](const Prepared& image) { return image.pixels.shape() != first->pixels.shape(); });
      const size_t begin = result.size();
      std::vector<Pixels> together;
      for (; first != end; ++first) {
        together.push_back(std::move(first->pixels));
        result.push_back({{}, first->picture});
      }
      const NamedTensors outputs = model->forward(inputs_of_images(together));
      for (const std::string& name : names) {
        const Tensor& output = outputs.at(name);
        const std::vector<float> values = output.to_vector<float>();
        Shape shape = output.shape();
        shape[0] = 1;
        auto row = values.begin();
        for (size_t i = begin; i < result.size(); ++i, row += elements(shape))
          result[i].values.push_back({shape, {row, row + elements(shape)}});
      }
    }
  }
  return result;
}

std::vector<ImageModel::Row> ImageModel::rows(const std::vector<TaskInput>& inputs, const std::string& name,
                                              int64_t batch_size) const {
  std::vector<Row> rows;
  for (Outputs& each : outputs(inputs, {name}, batch_size))
    rows.push_back({std::move(each.values[0].shape), std::move(each.values[0].values), each.picture});
  return rows;
}

}  // namespace transom
