// SPDX-License-Identifier: Apache-2.0
// Pillow's resampling of 8-bit pictures, and the same without rounding.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "inputs/images/image.h"

namespace transom {
namespace {

struct Filter {
  double (*weight)(double x);
  double support;  // beyond it the weight is 0
};

double box(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }
double triangle(double x) {
  x = std::abs(x);
  return x < 1 ? 1 - x : 0;
}
double hamming(double x) {
  x = std::abs(x);
  if (x == 0) return 1;
  if (x >= 1) return 0;
  x *= std::numbers::pi;
  return std::sin(x) / x * (0.54f + 0.46f * std::cos(x));
}
double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0;
}
double sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}
double lanczos(double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

Filter filter_of(Resampling resampling) {
  switch (resampling) {
    case Resampling::kBox:
      return {box, 0.5};
    case Resampling::kBilinear:
      return {triangle, 1};
    case Resampling::kHamming:
      return {hamming, 1};
    case Resampling::kBicubic:
      return {cubic, 2};
    default:
      return {lanczos, 3};
  }
}

constexpr int kFractionBits = 32 - 8 - 2;

// For each place of the result: the first pixel that counts, and the weights of it and the following ones.
template <typename Weight>
struct Taps {
  int64_t first = 0;
  std::vector<Weight> weights;
};
using PixelTaps = Taps<int32_t>;

std::vector<Taps<double>> exact_taps(const Filter& filter, int64_t from, double begin, double end, int64_t to) {
  const double scale = (end - begin) / static_cast<double>(to), widening = std::max(scale, 1.0);
  const double support = filter.support * widening;
  std::vector<Taps<double>> result(static_cast<size_t>(to));
  for (int64_t i = 0; i < to; ++i) {
    const double center = begin + (static_cast<double>(i) + 0.5) * scale, narrowing = 1.0 / widening;
    Taps<double>& taps = result[static_cast<size_t>(i)];
    taps.first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const int64_t last = std::min(static_cast<int64_t>(center + support + 0.5), from);
    double total = 0;
    for (int64_t k = taps.first; k < last; ++k)
      total += taps.weights.emplace_back(filter.weight((static_cast<double>(k) - center + 0.5) * narrowing));
    if (total != 0)
      for (double& weight : taps.weights) weight /= total;
  }
  return result;
}

std::vector<PixelTaps> taps_of(const Filter& filter, int64_t from, double begin, double end, int64_t to) {
  std::vector<PixelTaps> result;
  for (const Taps<double>& exact : exact_taps(filter, from, begin, end, to)) {
    PixelTaps& taps = result.emplace_back();
    taps.first = exact.first;
    for (const double weight : exact.weights)
      taps.weights.push_back(static_cast<int32_t>((weight < 0 ? -0.5 : 0.5) + weight * (1 << kFractionBits)));
  }
  return result;
}

uint8_t rounded_pixel(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255)); }

// Rows from `top` on, `height` of them.
Image resize_width(const Image& image, const std::vector<PixelTaps>& taps, int64_t top, int64_t height) {
  Image result(static_cast<int64_t>(taps.size()), height);
  for (int64_t y = 0; y < height; ++y) {
    uint8_t* to = result.row(y);
    for (const PixelTaps& tap : taps) {
      int32_t sums[3] = {1 << (kFractionBits - 1), 1 << (kFractionBits - 1), 1 << (kFractionBits - 1)};
      const uint8_t* from = image.row(top + y) + 3 * tap.first;
      for (const int32_t weight : tap.weights)
        for (int32_t& sum : sums) sum += *from++ * weight;
      for (const int32_t sum : sums) *to++ = rounded_pixel(sum);
    }
  }
  return result;
}

// `top` is the row of the original picture that the first row of `image` is.
Image resize_height(const Image& image, const std::vector<PixelTaps>& taps, int64_t top) {
  Image result(image.width, static_cast<int64_t>(taps.size()));
  std::vector<int32_t> sums(static_cast<size_t>(3 * image.width));
  for (int64_t y = 0; y < result.height; ++y) {
    const PixelTaps& tap = taps[static_cast<size_t>(y)];
    std::fill(sums.begin(), sums.end(), 1 << (kFractionBits - 1));
    int64_t row = tap.first - top;
    for (const int32_t weight : tap.weights) {
      const uint8_t* from = image.row(row++);
      for (int32_t& sum : sums) sum += *from++ * weight;
    }
    std::transform(sums.begin(), sums.end(), result.row(y), rounded_pixel);
  }
  return result;
}

// The places are added up, as Pillow does, not multiplied.
std::vector<int64_t> nearest_places(int64_t begin, int64_t extent, int64_t to) {
  const double step = static_cast<double>(extent) / static_cast<double>(to);
  std::vector<int64_t> places;
  double place = static_cast<double>(begin) + step * 0.5;
  for (int64_t i = 0; i < to; ++i, place += step)
    places.push_back(std::min(static_cast<int64_t>(place), begin + extent - 1));
  return places;
}

}  // namespace

Image resize_box(const Image& image, int64_t left, int64_t top, int64_t box_width, int64_t box_height, int64_t width,
                 int64_t height, Resampling resampling) {
  if (left < 0 || top < 0 || box_width < 1 || box_height < 1 || left > image.width - box_width ||
      top > image.height - box_height)
    fail("a box of {} x {} from ({}, {}) does not lie in an image of {} x {}", box_width, box_height, left, top,
         image.width, image.height);
  expect_extents(width, height);  // before the passes, whose work they are
  if (resampling == Resampling::kNearest) {
    Image result(width, height);
    const auto columns = nearest_places(left, box_width, width), rows = nearest_places(top, box_height, height);
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x)
        std::copy_n(image.row(rows[static_cast<size_t>(y)]) + 3 * columns[static_cast<size_t>(x)], 3,
                    result.row(y) + 3 * x);
    return result;
  }
  const Filter filter = filter_of(resampling);
  const bool horizontal = width != image.width || left != 0 || box_width != width;
  const bool vertical = height != image.height || top != 0 || box_height != height;
  const auto columns =
      taps_of(filter, image.width, static_cast<double>(left), static_cast<double>(left + box_width), width);
  const auto rows =
      taps_of(filter, image.height, static_cast<double>(top), static_cast<double>(top + box_height), height);
  if (!vertical) return horizontal ? resize_width(image, columns, 0, image.height) : image;
  if (!horizontal) return resize_height(image, rows, 0);
  // Each pass rounds, so the order shows. Pillow 13 begins with the height where it shrinks by enough.
  const int64_t shorter = image.height - height, narrower = image.width - width;
  if (shorter > 0 && shorter > 2 * narrower) return resize_width(resize_height(image, rows, 0), columns, 0, height);
  // Only the rows that the second pass looks at.
  const int64_t first = rows.front().first;
  const int64_t last = rows.back().first + static_cast<int64_t>(rows.back().weights.size());
  return resize_height(resize_width(image, columns, first, last - first), rows, first);
}

Image resize(const Image& image, int64_t width, int64_t height, Resampling resampling) {
  if (width == image.width && height == image.height) return image;
  return resize_box(image, 0, 0, image.width, image.height, width, height, resampling);
}

std::vector<float> resize_levels(const Image& image, const std::array<float, 256>& levels, int64_t width,
                                 int64_t height, Resampling resampling) {
  expect_extents(width, height);
  const Filter filter = filter_of(resampling);
  const auto columns = exact_taps(filter, image.width, 0, static_cast<double>(image.width), width);
  const auto rows = exact_taps(filter, image.height, 0, static_cast<double>(image.height), height);
  const auto plane = static_cast<size_t>(width * height);
  std::vector<float> across(static_cast<size_t>(3 * width * image.height));  // [rows of the picture, width, 3]
  for (int64_t y = 0; y < image.height; ++y) {
    float* to = across.data() + 3 * width * y;
    for (const Taps<double>& tap : columns) {
      double sums[3] = {};
      const uint8_t* from = image.row(y) + 3 * tap.first;
      for (const double weight : tap.weights)
        for (double& sum : sums) sum += static_cast<double>(levels[*from++]) * weight;
      for (const double sum : sums) *to++ = static_cast<float>(sum);
    }
  }
  std::vector<float> values(3 * plane);
  for (int64_t y = 0; y < height; ++y) {
    const Taps<double>& tap = rows[static_cast<size_t>(y)];
    for (int64_t i = 0; i < 3 * width; ++i) {
      double sum = 0;
      const float* from = across.data() + 3 * width * tap.first + i;
      for (const double weight : tap.weights) {
        sum += static_cast<double>(*from) * weight;
        from += 3 * width;
      }
      values[static_cast<size_t>(i % 3) * plane + static_cast<size_t>(y * width + i / 3)] = static_cast<float>(sum);
    }
  }
  return values;
}

}  // namespace transom
