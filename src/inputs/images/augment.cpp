// SPDX-License-Identifier: Apache-2.0
#include "inputs/images/augment.h"

#include <cmath>

namespace transom {
namespace {

constexpr double kNarrowest = 3.0 / 4.0, kWidest = 4.0 / 3.0;
constexpr int kAttempts = 10;

struct Box {
  int64_t left, top, width, height;
};

int64_t rounded(double x) { return static_cast<int64_t>(std::nearbyint(x)); }

Box random_box(const Image& image, double least_area, Mt19937& random) {
  const auto area = static_cast<double>(image.width * image.height);
  const auto uniform = [&](float low, float high) {
    float value = 0;
    random.fill_uniform({&value, 1}, low, high);
    return value;
  };
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double part = area * static_cast<double>(uniform(static_cast<float>(least_area), 1));
    const double ratio = static_cast<double>(
        std::exp(uniform(std::log(static_cast<float>(kNarrowest)), std::log(static_cast<float>(kWidest)))));
    const int64_t width = rounded(std::sqrt(part * ratio)), height = rounded(std::sqrt(part / ratio));
    if (width < 1 || width > image.width || height < 1 || height > image.height) continue;
    const int64_t top = random.randint(image.height - height + 1), left = random.randint(image.width - width + 1);
    return {left, top, width, height};
  }
  // The largest part in the middle whose ratio is admitted.
  Box box{0, 0, image.width, image.height};
  const double ratio = static_cast<double>(image.width) / static_cast<double>(image.height);
  if (ratio < kNarrowest) box.height = rounded(static_cast<double>(box.width) / kNarrowest);
  else if (ratio > kWidest) box.width = rounded(static_cast<double>(box.height) * kWidest);
  box.left = (image.width - box.width) / 2;
  box.top = (image.height - box.height) / 2;
  return box;
}

}  // namespace

Image random_resized_crop(const Image& image, int64_t height, int64_t width, Resampling resampling, Mt19937& random,
                          double least_area) {
  const Box box = random_box(image, least_area, random);
  return resize(crop(image, box.left, box.top, box.width, box.height), width, height, resampling);
}

Image random_flip(const Image& image, Mt19937& random) { return random.uniform() < 0.5f ? flipped(image) : image; }

Image filling(const Image& image, int64_t height, int64_t width, Resampling resampling) {
  const bool by_height = height * image.width >= width * image.height;  // which of the edges fits
  const int64_t wanted = by_height ? height : width, given = by_height ? image.height : image.width;
  return resize(image, image.width * wanted / given, image.height * wanted / given, resampling);
}

// Halves become even, as Python rounds them.
int64_t middle_of(int64_t extent, int64_t part) { return rounded(static_cast<double>(extent - part) / 2); }

Image filling_middle(const Image& image, int64_t height, int64_t width, Resampling resampling) {
  const Image resized = filling(image, height, width, resampling);
  return crop(resized, middle_of(resized.width, width), middle_of(resized.height, height), width, height);
}

}  // namespace transom
