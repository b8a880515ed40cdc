// SPDX-License-Identifier: Apache-2.0
#include "inputs/images/page_fit.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "files/config/config.h"

namespace transom {
namespace {

// As Python's int() of a quotient.
int64_t in_form(int64_t extent, int64_t by, int64_t over) {
  const double value = static_cast<double>(extent * by) / static_cast<double>(over);
  if (!(value >= 1) || value > 1e9) fail("fitting a picture onto a page makes an edge of {} pixels", value);
  return static_cast<int64_t>(value);
}

// Turned by a quarter, clockwise, where the page stands and the picture lies, or the other way round.
Image along_page(const Image& image, int64_t height, int64_t width) {
  const bool lies = image.width > image.height, stands = image.width < image.height;
  if (!((width < height && lies) || (width > height && stands))) return image;
  Image turned(image.height, image.width);
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < image.width; ++x)
      std::copy_n(image.row(y) + 3 * x, 3, turned.row(x) + 3 * (image.height - 1 - y));
  return turned;
}

// Not larger than the page, in the picture's form. Smaller ones stay as they are.
Image shrunk_to_page(const Image& image, int64_t height, int64_t width, Resampling resampling) {
  int64_t to_height = std::min(image.height, height), to_width = std::min(image.width, width);
  if (to_height == image.height && to_width == image.width) return image;
  if (image.height > image.width) to_width = in_form(image.width, to_height, image.height);
  else if (image.width > image.height) to_height = in_form(image.height, to_width, image.width);
  return resize(image, to_width, to_height, resampling);
}

Image in_middle_of_page(const Image& image, int64_t height, int64_t width) {
  if (image.height > height || image.width > width)
    fail("a page of {} x {} pixels does not hold a picture of {} x {}: expected do_thumbnail", width, height,
         image.width, image.height);
  return crop(image, -((width - image.width) / 2), -((height - image.height) / 2), width, height);
}

}  // namespace

PageFit::PageFit(const Config& config)
    : aligns_(config.get_bool("do_align_long_axis", false)),
      resizes_(config.get_bool("do_resize", true)),
      shrinks_(config.get_bool("do_thumbnail", true)),
      fills_(config.get_bool("do_pad", true)) {}

// First the shorter edge becomes the page's shorter one, whatever the picture's form.
Image PageFit::operator()(const Image& image, int64_t height, int64_t width, Resampling resampling) const {
  Image page = aligns_ ? along_page(image, height, width) : image;
  if (resizes_) {
    const int64_t edge = std::min(height, width), shorter = std::min(page.width, page.height);
    const int64_t other = in_form(edge, std::max(page.width, page.height), shorter);
    const bool upright = page.width <= page.height;
    expect_extents(edge, other);
    page = resize(page, upright ? edge : other, upright ? other : edge, resampling);
  }
  if (shrinks_) page = shrunk_to_page(page, height, width, resampling);
  return fills_ ? in_middle_of_page(page, height, width) : page;
}

Image in_square(const Image& image, const std::array<float, 3>& mean_colour) {
  const int64_t side = std::max(image.width, image.height);
  if (image.width == image.height) return image;
  std::array<uint8_t, 3> margin{};
  for (size_t c = 0; c < 3; ++c) {
    // Python's int() of a product of doubles: of the number that was written, not of the float nearest to it.
    const double mean = std::strtod(fmt::format("{}", mean_colour[c]).c_str(), nullptr);
    margin[c] = static_cast<uint8_t>(mean * 255);
  }
  Image square(side, side);
  for (size_t i = 0; i < square.pixels.size(); ++i) square.pixels[i] = margin[i % 3];
  const int64_t left = (side - image.width) / 2, top = (side - image.height) / 2;
  for (int64_t y = 0; y < image.height; ++y) std::copy_n(image.row(y), 3 * image.width, square.row(top + y) + 3 * left);
  return square;
}

}  // namespace transom
