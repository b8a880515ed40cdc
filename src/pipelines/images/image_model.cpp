// SPDX-License-Identifier: Apache-2.0
#include "pipelines/images/image_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "base/text/base64.h"
#include "base/threads/prefetcher.h"
#include "base/threads/threads.h"

namespace transom {

using Pixels = ImageProcessor::Pixels;

Tensor pixel_values(std::span<const Pixels> images) {
  const int64_t height = images[0].height, width = images[0].width;
  std::vector<float> values;
  for (const Pixels& image : images) values.insert(values.end(), image.values.begin(), image.values.end());
  return Tensor::from(values, {static_cast<int64_t>(images.size()), 3, height, width});
}

namespace {

// A file, or a picture in the text itself: "data:image/png;base64,..." (RFC 2397).
Image image_of(const std::string& source) {
  if (!source.starts_with("data:")) return read_image(source);
  constexpr std::string_view kMark = ";base64,";
  const size_t mark = source.find(kMark);
  require(mark != source.npos && mark < 100, "an image: expected data:image/...;base64,..., found {}",
          quoted(source.substr(0, 40)));
  const std::string bytes = from_base64(std::string_view(source).substr(mark + kMark.size()), "an image");
  return decode_image(std::as_bytes(std::span(bytes)), "an image");
}

}  // namespace

Pixels ImageModel::pixels(const Json& input) const {
  if (const auto bytes = bytes_input(input, "image")) return processor(decode_image(*bytes, "the input"));
  return processor(image_of(text_input(input, "image")));
}

std::vector<ImageModel::Row> ImageModel::rows(const std::vector<Json>& inputs, const std::string& name,
                                              int64_t batch_size) const {
  const NoGradient inference;
  const auto count = static_cast<int64_t>(inputs.size());
  Prefetcher<std::vector<Pixels>> batches((count + batch_size - 1) / batch_size, [&](int64_t number) {
    const int64_t first = number * batch_size;
    std::vector<Pixels> images(static_cast<size_t>(std::min(batch_size, count - first)));
    parallel_for(images.size(), [&](size_t i) { images[i] = pixels(inputs[static_cast<size_t>(first) + i]); });
    return images;
  });
  std::vector<Row> result;
  while (batches.left() > 0) {
    const std::vector<Pixels> images = batches.next();
    for (auto first = images.begin(); first != images.end();) {
      const auto end = std::find_if(first, images.end(), [&](const Pixels& image) {
        return image.height != first->height || image.width != first->width;
      });
      const Tensor output = model->forward({{"pixel_values", pixel_values({first, end})}}).at(name);
      const std::vector<float> values = output.to_vector<float>();
      Shape shape = output.shape();
      shape[0] = 1;
      for (auto row = values.begin(); first != end; ++first, row += elements(shape))
        result.push_back({shape, {row, row + elements(shape)}});
    }
  }
  return result;
}

}  // namespace transom
