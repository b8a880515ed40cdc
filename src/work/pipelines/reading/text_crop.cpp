// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/reading/text_crop.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace transom {
namespace {

constexpr int64_t kSteps = 32;  // within a pixel, as OpenCV's tables have them
using Matrix = std::array<double, 9>;

// The projection that takes (0, 0), (w, 0), (w, h), (0, h) to the corners: eight equations by elimination.
Matrix projection_to(const Quadrilateral& corners, double width, double height) {
  const Point from[] = {{0, 0}, {width, 0}, {width, height}, {0, height}};
  std::array<std::array<double, 9>, 8> rows{};
  for (size_t i = 0; i < 4; ++i) {
    const auto [x, y] = from[i];
    const auto [u, v] = corners[i];
    rows[i] = {x, y, 1, 0, 0, 0, -x * u, -y * u, u};
    rows[i + 4] = {0, 0, 0, x, y, 1, -x * v, -y * v, v};
  }
  for (size_t column = 0; column < 8; ++column) {
    size_t pivot = column;
    for (size_t row = column; row < 8; ++row)
      if (std::abs(rows[row][column]) > std::abs(rows[pivot][column])) pivot = row;
    std::swap(rows[column], rows[pivot]);
    if (std::abs(rows[column][column]) < 1e-12) fail("a region of text: its corners lie on a line");
    for (size_t row = 0; row < 8; ++row) {
      if (row == column) continue;
      const double factor = rows[row][column] / rows[column][column];
      for (size_t i = column; i < 9; ++i) rows[row][i] -= factor * rows[column][i];
    }
  }
  Matrix result{};
  for (size_t i = 0; i < 8; ++i) result[i] = rows[i][8] / rows[i][i];
  result[8] = 1;
  return result;
}

std::array<float, 4> cubic_weights(float x) {
  constexpr float a = -0.75f;
  std::array<float, 4> w{};
  w[0] = ((a * (x + 1) - 5 * a) * (x + 1) + 8 * a) * (x + 1) - 4 * a;
  w[1] = ((a + 2) * x - (a + 3)) * x * x + 1;
  w[2] = ((a + 2) * (1 - x) - (a + 3)) * (1 - x) * (1 - x) + 1;
  w[3] = 1 - w[0] - w[1] - w[2];
  return w;
}

Image turned_left(const Image& image) {
  Image result(image.height, image.width);
  for (int64_t y = 0; y < result.height; ++y)
    for (int64_t x = 0; x < result.width; ++x)
      std::copy_n(image.row(x) + 3 * (image.width - 1 - y), 3, result.row(y) + 3 * x);
  return result;
}

}  // namespace

Image upright_crop(const Image& image, const Quadrilateral& corners) {
  const auto extent = [](double a, double b) { return std::max<int64_t>(static_cast<int64_t>(std::max(a, b)), 1); };
  const int64_t width = extent(distance(corners[0], corners[1]), distance(corners[2], corners[3])),
                height = extent(distance(corners[0], corners[3]), distance(corners[1], corners[2]));
  const Matrix m = projection_to(corners, static_cast<double>(width), static_cast<double>(height));
  Image result(width, height);
  for (int64_t row = 0; row < height; ++row)
    for (int64_t column = 0; column < width; ++column) {
      const auto x = static_cast<double>(column), y = static_cast<double>(row);
      const double w = m[6] * x + m[7] * y + m[8], scale = w != 0 ? static_cast<double>(kSteps) / w : 0;
      const auto place = [&](double value) { return std::llrint(std::clamp(value * scale, -1e9, 1e9)); };
      const int64_t u = place(m[0] * x + m[1] * y + m[2]), v = place(m[3] * x + m[4] * y + m[5]);
      const auto part = [](int64_t at) { return static_cast<float>(at & (kSteps - 1)) / static_cast<float>(kSteps); };
      const std::array<float, 4> across = cubic_weights(part(u)), down = cubic_weights(part(v));
      std::array<float, 3> sum{};
      for (int64_t dy = 0; dy < 4; ++dy) {
        const uint8_t* line = image.row(std::clamp<int64_t>((v >> 5) + dy - 1, 0, image.height - 1));
        for (int64_t dx = 0; dx < 4; ++dx) {
          const uint8_t* pixel = line + 3 * std::clamp<int64_t>((u >> 5) + dx - 1, 0, image.width - 1);
          const float weight = down[static_cast<size_t>(dy)] * across[static_cast<size_t>(dx)];
          for (size_t c = 0; c < 3; ++c) sum[c] += weight * static_cast<float>(pixel[c]);
        }
      }
      for (size_t c = 0; c < 3; ++c)
        result.row(row)[3 * column + static_cast<int64_t>(c)] =
            static_cast<uint8_t>(std::clamp(std::lrint(sum[c]), 0L, 255L));
    }
  return height >= width + width / 2.0 ? turned_left(result) : result;
}

Image upside_down(const Image& image) {
  Image result(image.width, image.height);
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < image.width; ++x)
      std::copy_n(image.row(image.height - 1 - y) + 3 * (image.width - 1 - x), 3, result.row(y) + 3 * x);
  return result;
}

}  // namespace transom
