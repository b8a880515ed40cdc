// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/images/letterbox.h"

#include <algorithm>
#include <cmath>

#include "work/pipelines/images/bilinear.h"

namespace transom {
namespace {

constexpr uint8_t kGray = 114;

void paste(Image& frame, const Image& picture, int64_t left, int64_t top) {
  for (int64_t y = 0; y < picture.height; ++y)
    std::copy(picture.row(y), picture.row(y) + 3 * picture.width, frame.row(top + y) + 3 * left);
}

}  // namespace

Letterbox in_frame(const Image& picture, int64_t width, int64_t height, LetterboxFrame frame) {
  const auto w = static_cast<double>(picture.width), h = static_cast<double>(picture.height);
  Letterbox result;
  if (frame == LetterboxFrame::kBlackSquare) {
    const int64_t most = std::max(picture.width, picture.height);
    Image square(most, most);
    paste(square, picture, 0, 0);
    result.image = resize_linear(square, width, height);
    result.scale_x = static_cast<double>(width) / static_cast<double>(most);
    result.scale_y = static_cast<double>(height) / static_cast<double>(most);
    return result;
  }
  const double scale = std::min(static_cast<double>(width) / w, static_cast<double>(height) / h);
  const auto extent = [&](double x, int64_t most) {
    const double scaled = frame == LetterboxFrame::kCentre ? std::nearbyint(x * scale) : std::floor(x * scale);
    return std::clamp<int64_t>(static_cast<int64_t>(scaled), 1, most);
  };
  const int64_t inner_width = extent(w, width), inner_height = extent(h, height);
  int64_t left = 0, top = 0;
  if (frame == LetterboxFrame::kCentre) {  // of an odd rest the smaller part is first
    left = static_cast<int64_t>(std::nearbyint(static_cast<double>(width - inner_width) / 2 - 0.1));
    top = static_cast<int64_t>(std::nearbyint(static_cast<double>(height - inner_height) / 2 - 0.1));
  }
  result.image = Image(width, height);
  std::fill(result.image.pixels.begin(), result.image.pixels.end(), kGray);
  paste(result.image, resize_linear(picture, inner_width, inner_height), left, top);
  result.scale_x = result.scale_y = scale;
  result.left = static_cast<double>(left), result.top = static_cast<double>(top);
  return result;
}

}  // namespace transom
