// SPDX-License-Identifier: Apache-2.0
// What OWLv2's processor makes of a picture at the top left of a black frame: where it shrinks it is first blurred by a
// Gauss curve that grows with the factor, then taken linearly between pixels, in floating point, as scipy.ndimage's
// gaussian_filter and zoom do with mode mirror. The frame itself is never made.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/threads/threads.h"
#include "inputs/images/image_processor.h"

namespace transom {
namespace {

// The place of a frame that lies where one beyond its edge is mirrored; the edge itself is not repeated.
int64_t mirrored_place(int64_t at, int64_t extent) {
  if (extent == 1) return 0;
  const int64_t period = 2 * extent - 2;
  at = std::abs(at) % period;
  return at < extent ? at : period - at;
}

// One half of a Gauss curve, the middle first, of which both halves add up to 1.
std::vector<double> half_gauss_curve(double factor) {
  const double deviation = std::max(0.0, (factor - 1) / 2);
  if (deviation <= 1e-15) return {1};
  const auto radius = static_cast<int64_t>(4 * deviation + 0.5);
  std::vector<double> half;
  double total = 0;
  for (int64_t i = 0; i <= radius; ++i) {
    half.push_back(std::exp(-0.5 / (deviation * deviation) * static_cast<double>(i * i)));
    total += i == 0 ? 1 : 2 * half.back();
  }
  for (double& weight : half) weight /= total;
  return half;
}

// Two neighbours in a frame, and how much of each is seen.
struct LinearTap {
  std::array<int64_t, 2> places;
  std::array<double, 2> weights;
};

LinearTap linear_tap(int64_t at, int64_t extent, int64_t wanted) {
  const double zoom = static_cast<double>(extent) / static_cast<double>(wanted);
  const double place = std::abs((static_cast<double>(at) + 0.5) * zoom - 0.5), below = std::floor(place);
  const auto first = static_cast<int64_t>(below);
  return {{mirrored_place(first, extent), mirrored_place(first + 1, extent)}, {1 - (place - below), place - below}};
}

class SmoothResize {
 public:
  SmoothResize(const Image& image, const std::array<float, 256>& levels, std::array<int64_t, 2> frame,
               std::array<int64_t, 2> extents)
      : image_(image), levels_(levels), frame_(frame) {
    const auto curve_of = [&](size_t axis) {
      return half_gauss_curve(static_cast<double>(frame[axis]) / static_cast<double>(extents[axis]));
    };
    down_ = curve_of(0), across_ = curve_of(1);
    for (int64_t y = 0; y < extents[0]; ++y) rows_.push_back(linear_tap(y, frame[0], extents[0]));
    for (int64_t x = 0; x < extents[1]; ++x) columns_.push_back(linear_tap(x, frame[1], extents[1]));
    std::array<bool, 256> seen{};
    for (const uint8_t value : image.pixels) seen[value] = true;
    const bool has_margin = frame[0] > image.height || frame[1] > image.width;
    least_ = has_margin ? 0 : levels[image.pixels[0]], most_ = least_;
    for (size_t i = 0; i < 256; ++i)
      if (seen[i]) least_ = std::min(least_, levels[i]), most_ = std::max(most_, levels[i]);
  }

  std::vector<float> values() const {
    const size_t height = rows_.size(), width = columns_.size(), plane = height * width;
    std::vector<float> values(3 * plane);
    parallel_for(height, [&](size_t y) {
      const std::vector<float> upper = blurred(rows_[y].places[0]), lower = blurred(rows_[y].places[1]);
      const auto& [above, below] = rows_[y].weights;
      for (size_t x = 0; x < width; ++x) {
        const auto& [left, right] = columns_[x].weights;
        for (size_t c = 0; c < 3; ++c) {
          const size_t at = 6 * x + c;
          const double value = upper[at] * above * left + upper[at + 3] * above * right + lower[at] * below * left +
                               lower[at + 3] * below * right;
          values[c * plane + y * width + x] = std::clamp(static_cast<float>(value), least_, most_);
        }
      }
    });
    return values;
  }

 private:
  // A row of the frame blurred downwards, as far as there is a picture: [width of the picture, 3].
  std::vector<float> blurred_down(int64_t row) const {
    std::vector<double> sums(static_cast<size_t>(3 * image_.width), 0);
    const auto row_at = [&](int64_t at) -> const uint8_t* {  // null: of the frame alone
      at = mirrored_place(at, frame_[0]);
      return at < image_.height ? image_.row(at) : nullptr;
    };
    const auto level = [&](const uint8_t* bytes, size_t i) {
      return bytes ? static_cast<double>(levels_[bytes[i]]) : 0.0;
    };
    if (const uint8_t* middle = row_at(row))
      for (size_t i = 0; i < sums.size(); ++i) sums[i] = level(middle, i) * down_[0];
    for (auto k = static_cast<int64_t>(down_.size()) - 1; k > 0; --k) {
      const uint8_t *above = row_at(row - k), *below = row_at(row + k);
      if (!above && !below) continue;
      for (size_t i = 0; i < sums.size(); ++i)
        sums[i] += (level(above, i) + level(below, i)) * down_[static_cast<size_t>(k)];
    }
    return {sums.begin(), sums.end()};
  }

  // The same row blurred across, at the two columns that each pixel needs: [width, 2, 3].
  std::vector<float> blurred(int64_t row) const {
    const std::vector<float> line = blurred_down(row);
    if (std::all_of(line.begin(), line.end(), [](float value) { return value == 0; }))
      return std::vector<float>(6 * columns_.size(), 0.0f);
    std::vector<float> values;
    values.reserve(6 * columns_.size());
    const auto at = [&](int64_t column, size_t c) {
      column = mirrored_place(column, frame_[1]);
      return column < image_.width ? static_cast<double>(line[static_cast<size_t>(3 * column) + c]) : 0.0;
    };
    for (const LinearTap& tap : columns_)
      for (const int64_t column : tap.places)
        for (size_t c = 0; c < 3; ++c) {
          double sum = at(column, c) * across_[0];
          for (auto i = static_cast<int64_t>(across_.size()) - 1; i > 0; --i)
            sum += (at(column - i, c) + at(column + i, c)) * across_[static_cast<size_t>(i)];
          values.push_back(static_cast<float>(sum));
        }
    return values;
  }

  const Image& image_;
  const std::array<float, 256>& levels_;
  std::array<int64_t, 2> frame_;
  std::vector<double> down_, across_;  // the curves
  std::vector<LinearTap> rows_, columns_;
  float least_ = 0, most_ = 0;  // nothing is beyond what the frame holds
};

}  // namespace

ImageProcessor::Pixels ImageProcessor::smoothed(const Image& image) const {
  std::array<int64_t, 2> frame{image.height, image.width};
  if (squares_) frame[0] = frame[1] = std::max(image.height, image.width);
  const std::array<int64_t, 2> extents = do_resize_ ? std::array{size_.height, size_.width} : frame;
  expect_extents(extents[1], extents[0]);
  std::array<float, 256> levels{};
  for (size_t value = 0; value < 256; ++value)
    levels[value] = static_cast<float>(static_cast<double>(value) * rescale_factor_);
  Pixels pixels{extents[0], extents[1], SmoothResize(image, levels, frame, extents).values()};
  const size_t plane = pixels.values.size() / 3;
  for (size_t i = 0; do_normalize_ && i < pixels.values.size(); ++i)
    pixels.values[i] = (pixels.values[i] - mean_[i / plane]) / deviation_[i / plane];
  return pixels;
}

}  // namespace transom
