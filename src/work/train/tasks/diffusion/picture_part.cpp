// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/diffusion/picture_part.h"

#include <algorithm>

#include "base/error.h"
#include "inputs/images/augment.h"

namespace transom {

Image PictureParts::resized(const Image& image) const {
  if (!squashes) return filling(image, height, width, resampling);
  if (!middle || image.height == image.width) return resize(image, width, height, resampling);
  const int64_t side = std::min(image.height, image.width);
  const Image square = crop(image, (image.width - side) / 2, (image.height - side) / 2, side, side);
  return resize(square, width, height, resampling);
}

bool PictureParts::is_fixed(int64_t resized_height, int64_t resized_width) const {
  return middle || (resized_width == width && resized_height == height);
}

PicturePart PictureParts::draw(int64_t resized_height, int64_t resized_width, Mt19937& random) const {
  PicturePart part;
  const auto mirror = [&] {
    if (mirrors) part.mirrored = random.uniform() < 0.5f;
  };
  if (mirrors_first) mirror();
  if (is_fixed(resized_height, resized_width)) {
    part.top = middle_of(resized_height, height);
    part.left = middle_of(resized_width, width);
  } else {
    part.top = random.randint(resized_height - height + 1);
    part.left = random.randint(resized_width - width + 1);
  }
  if (!mirrors_first) mirror();
  return part;
}

std::vector<float> PictureParts::unit_pixels(const Image& resized, const PicturePart& part) const {
  Image cut;
  if (mirrors_first) cut = crop(part.mirrored ? flipped(resized) : resized, part.left, part.top, width, height);
  else cut = crop(resized, part.left, part.top, width, height);
  if (part.mirrored && !mirrors_first) cut = flipped(cut);
  const auto places = static_cast<size_t>(height * width);
  std::vector<float> values;
  values.reserve(static_cast<size_t>(channels) * places);
  for (int64_t c = 0; c < channels; ++c)
    for (size_t i = 0; i < places; ++i) {
      const uint8_t* pixel = cut.pixels.data() + 3 * i;
      values.push_back(static_cast<float>(channels == 1 ? grey_of(pixel) : pixel[c]) / 255.0f);
    }
  return values;
}

std::vector<float> PictureParts::pixels(const Image& resized, const PicturePart& part) const {
  std::vector<float> values = unit_pixels(resized, part);
  for (float& value : values) value = (value - 0.5f) / 0.5f;
  return values;
}

Resampling resampling_named(const std::string& name) {
  constexpr std::pair<std::string_view, Resampling> kKnown[] = {
      {"lanczos", Resampling::kLanczos}, {"bilinear", Resampling::kBilinear}, {"bicubic", Resampling::kBicubic},
      {"box", Resampling::kBox},         {"nearest", Resampling::kNearest},   {"hamming", Resampling::kHamming}};
  for (const auto& [known, resampling] : kKnown)
    if (name == known) return resampling;
  fail(ErrorKind::kUsage, "--image_interpolation_mode: expected a way of resampling, found {}", quoted(name));
}

}  // namespace transom
