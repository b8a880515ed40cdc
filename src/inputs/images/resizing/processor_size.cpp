// SPDX-License-Identifier: Apache-2.0
// How large image processors make a picture.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "inputs/images/image_processor.h"

namespace transom {
namespace {

// Python's int() of a quotient, for sizes.
int64_t scaled(int64_t x, int64_t by, int64_t over) {
  const double value = static_cast<double>(x * by) / static_cast<double>(over);
  if (!(value >= 1) || value > 1e9) fail("resizing an image makes an edge of {} pixels", value);
  return static_cast<int64_t>(value);
}

}  // namespace

std::array<int64_t, 2> ImageProcessor::Size::of(const Image& image) const {
  const auto [height, width] = before_raising(image);
  const auto up = [this](int64_t extent) { return (extent + raised - 1) / raised * raised; };
  return {up(height), up(width)};
}

std::array<int64_t, 2> ImageProcessor::Size::before_raising(const Image& image) const {
  if (shortest_edge == 0 && height == 0 && longest_edge > 0) {
    const double scale = static_cast<double>(longest_edge) / static_cast<double>(std::max(image.width, image.height));
    const auto near = [&](int64_t extent) {  // as Python's int() of what is a half more
      return std::max<int64_t>(static_cast<int64_t>(static_cast<double>(extent) * scale + 0.5), 1);
    };
    return {near(image.height), near(image.width)};
  }
  if (shortest_edge == 0) return {height, width};
  const bool upright = image.width <= image.height;
  const int64_t shorter = std::min(image.width, image.height), longer = std::max(image.width, image.height);
  if (longest_edge == 0) {
    const int64_t other = scaled(shortest_edge, longer, shorter);
    return upright ? std::array{other, shortest_edge} : std::array{shortest_edge, other};
  }
  // The longest edge is a limit.
  int64_t size = shortest_edge;
  std::optional<double> limited;
  const double s = static_cast<double>(shorter), l = static_cast<double>(longer);
  if (l / s * static_cast<double>(size) > static_cast<double>(longest_edge)) {
    limited = static_cast<double>(longest_edge) * s / l;
    size = std::lrint(*limited);
  }
  if (shorter == size) return {whole_part(image.height), whole_part(image.width)};
  const int64_t other = whole_part(limited ? static_cast<int64_t>(*limited * l / s) : scaled(size, longer, shorter));
  size = whole_part(size);
  return image.width < image.height ? std::array{other, size} : std::array{size, other};
}

int64_t ImageProcessor::Size::whole_part(int64_t extent) const {
  if (extent < whole)
    fail("size: a picture becomes {} pixels wide or high: expected {} or more, of which multiples are taken", extent,
         whole);
  return extent - extent % whole;
}

}  // namespace transom
