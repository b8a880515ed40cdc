// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/diffusion/picture_pixels.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace transom {
namespace {

Image with_extents(const Image& image, int64_t height, int64_t width) {
  return image.width == width && image.height == height ? image : resize(image, width, height, Resampling::kLanczos);
}

}  // namespace

std::vector<float> unit_pixels(const Image& given, int64_t height, int64_t width) {
  const Image image = with_extents(given, height, width);
  const auto places = static_cast<size_t>(height * width);
  std::vector<float> pixels(3 * places);
  for (size_t c = 0; c < 3; ++c)
    for (size_t i = 0; i < places; ++i) pixels[c * places + i] = static_cast<float>(image.pixels[3 * i + c]) / 255.0f;
  return pixels;
}

std::vector<float> signed_pixels(const Image& image, int64_t height, int64_t width) {
  std::vector<float> pixels = unit_pixels(image, height, width);
  for (float& pixel : pixels) pixel = 2.0f * pixel - 1.0f;
  return pixels;
}

std::vector<float> white_places(const Image& given, int64_t height, int64_t width) {
  const Image image = with_extents(given, height, width);
  std::vector<float> white;
  for (size_t i = 0; i + 2 < image.pixels.size(); i += 3)
    white.push_back(static_cast<float>(grey_of(&image.pixels[i])) / 255.0f < 0.5f ? 0.0f : 1.0f);
  return white;
}

void expect_finite(std::span<const float> sample) {
  for (const float value : sample)
    if (!std::isfinite(value))
      fail("the latents hold {}: with weights of 16 bits the networks may overflow; try another --dtype", value);
}

Picture picture_of_sample(const Tensor& sample) {
  const int64_t C = sample.dim(1), H = sample.dim(2), W = sample.dim(3);
  if (C != 3 && C != 1) fail("the pipeline gives pictures of {} channels: expected 3 of colours, or 1", C);
  const std::vector<float> values = sample.to_vector<float>();
  std::vector<uint8_t> pixels(values.size());
  for (int64_t i = 0; i < H * W; ++i)
    for (int64_t c = 0; c < C; ++c) {
      const float value = values[static_cast<size_t>(c * H * W + i)] / 2 + 0.5f;
      const float bounded = value > 0 ? std::min(value, 1.0f) : 0.0f;  // no number is black
      pixels[static_cast<size_t>(i * C + c)] = static_cast<uint8_t>(std::nearbyint(bounded * 255));
    }
  return {.width = W, .height = H, .channels = C, .values = std::move(pixels)};
}

}  // namespace transom
