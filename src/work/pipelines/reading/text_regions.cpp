// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/reading/text_regions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace transom {
namespace {

constexpr size_t kMostRegions = 1000;
constexpr double kLeastSide = 3, kLeastGrownSide = 5;
constexpr double kNewLine = 10;  // beginnings that are nearer than this are of one line

// Which pixels are text; grown by one to the right and below, so that parts of letters hold together.
std::vector<uint8_t> text_pixels(std::span<const float> map, int64_t width, int64_t height, double threshold) {
  std::vector<uint8_t> grown(map.size(), 0);
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      if (!(static_cast<double>(map[static_cast<size_t>(y * width + x)]) > threshold)) continue;
      for (int64_t dy = 0; dy < 2 && y + dy < height; ++dy)
        for (int64_t dx = 0; dx < 2 && x + dx < width; ++dx) grown[static_cast<size_t>((y + dy) * width + x + dx)] = 1;
    }
  return grown;
}

// The pixels of the component around a place that have a neighbour outside of it; the component is wiped out.
std::vector<Point> border_of(std::vector<uint8_t>& pixels, int64_t width, int64_t height, int64_t start) {
  std::vector<int64_t> pending{start};
  std::vector<Point> border;
  pixels[static_cast<size_t>(start)] = 2;
  while (!pending.empty()) {
    const int64_t place = pending.back(), x = place % width, y = place / width;
    pending.pop_back();
    bool inside = x > 0 && y > 0 && x + 1 < width && y + 1 < height;
    for (int64_t dy = -1; dy <= 1; ++dy)
      for (int64_t dx = -1; dx <= 1; ++dx) {
        if (x + dx < 0 || x + dx >= width || y + dy < 0 || y + dy >= height) continue;
        const int64_t other = place + dy * width + dx;
        uint8_t& pixel = pixels[static_cast<size_t>(other)];
        if (pixel == 0) inside = false;
        if (pixel != 1) continue;
        pixel = 2;
        pending.push_back(other);
      }
    if (!inside) border.push_back({static_cast<double>(x), static_cast<double>(y)});
  }
  return border;
}

// The mean of the map within a convex polygon whose corners are cut to whole pixels.
double mean_within(std::span<const float> map, int64_t width, int64_t height, const Quadrilateral& corners) {
  const auto bounded = [](double value, int64_t most) {
    return static_cast<int64_t>(std::clamp(value, 0.0, static_cast<double>(most - 1)));
  };
  double x_low = corners[0].x, x_high = x_low, y_low = corners[0].y, y_high = y_low;
  for (const Point corner : corners) {
    x_low = std::min(x_low, corner.x), x_high = std::max(x_high, corner.x);
    y_low = std::min(y_low, corner.y), y_high = std::max(y_high, corner.y);
  }
  const int64_t left = bounded(std::floor(x_low), width), right = bounded(std::ceil(x_high), width),
                top = bounded(std::floor(y_low), height), bottom = bounded(std::ceil(y_high), height);
  Quadrilateral cut;
  for (size_t i = 0; i < 4; ++i)
    cut[i] = {std::trunc(corners[i].x - static_cast<double>(left)),
              std::trunc(corners[i].y - static_cast<double>(top))};
  double sum = 0, count = 0;
  for (int64_t y = top; y <= bottom; ++y)
    for (int64_t x = left; x <= right; ++x) {
      const Point place{static_cast<double>(x - left), static_cast<double>(y - top)};
      bool inside = true;
      for (size_t i = 0; i < 4 && inside; ++i) {  // half a pixel beyond an edge counts, as a line that is drawn there
        const Point a = cut[i], b = cut[(i + 1) % 4];
        const double length = std::max(distance(a, b), 1e-9);
        inside = ((b.x - a.x) * (place.y - a.y) - (b.y - a.y) * (place.x - a.x)) / length >= -0.5;
      }
      if (!inside) continue;
      sum += static_cast<double>(map[static_cast<size_t>(y * width + x)]);
      ++count;
    }
  return count > 0 ? sum / count : 0;
}

// The polygon grown by a distance, with round corners, on whole pixels (Clipper's offset of a closed path).
std::vector<Point> grown_polygon(const Quadrilateral& corners, double ratio) {
  double area = 0, length = 0;
  for (size_t i = 0; i < 4; ++i) {
    const Point a = corners[i], b = corners[(i + 1) % 4];
    area += a.x * b.y - b.x * a.y;
    length += distance(a, b);
  }
  const double delta = length > 0 ? std::abs(area) / 2 * ratio / length : 0;
  std::vector<Point> path, normals, result;
  for (const Point corner : corners) {
    const Point whole{std::trunc(corner.x), std::trunc(corner.y)};
    if (path.empty() || whole.x != path.back().x || whole.y != path.back().y) path.push_back(whole);
  }
  if (delta <= 0 || path.size() < 3) return path;
  for (size_t i = 0; i < path.size(); ++i) {
    const Point a = path[i], b = path[(i + 1) % path.size()];
    const double size = std::max(distance(a, b), 1e-9);
    normals.push_back({(b.y - a.y) / size, -(b.x - a.x) / size});
  }
  const double tolerance = std::min(0.25, delta * 0.25);
  const double steps = std::min(std::numbers::pi / std::acos(1 - tolerance / delta), delta * std::numbers::pi);
  const double sine = std::sin(2 * std::numbers::pi / steps), cosine = std::cos(2 * std::numbers::pi / steps);
  const auto add = [&](Point corner, Point normal) {
    result.push_back({std::round(corner.x + normal.x * delta), std::round(corner.y + normal.y * delta)});
  };
  for (size_t j = 0; j < path.size(); ++j) {
    const Point before = normals[(j + path.size() - 1) % path.size()], after = normals[j];
    const double turn = std::atan2(before.x * after.y - before.y * after.x, before.x * after.x + before.y * after.y);
    const auto count = std::max(std::lround(steps / (2 * std::numbers::pi) * std::abs(turn)), 1L);
    Point normal = before;
    for (long i = 0; i < count; ++i) {
      add(path[j], normal);
      normal = {normal.x * cosine - sine * normal.y, normal.x * sine + normal.y * cosine};
    }
    add(path[j], after);
  }
  return result;
}

// From the top left clockwise, within the picture, on whole pixels.
Quadrilateral within_picture(Quadrilateral corners, int64_t width, int64_t height) {
  std::stable_sort(corners.begin(), corners.end(), [](Point a, Point b) { return a.x < b.x; });
  const auto higher = [](Point a, Point b) { return a.y < b.y; };
  std::stable_sort(corners.begin(), corners.begin() + 2, higher);
  std::stable_sort(corners.begin() + 2, corners.end(), higher);
  Quadrilateral result{corners[0], corners[2], corners[3], corners[1]};
  for (Point& corner : result) {
    corner.x = std::trunc(std::clamp(corner.x, 0.0, static_cast<double>(width - 1)));
    corner.y = std::trunc(std::clamp(corner.y, 0.0, static_cast<double>(height - 1)));
  }
  return result;
}

void sort_for_reading(std::vector<Quadrilateral>& regions) {
  std::stable_sort(regions.begin(), regions.end(),
                   [](const Quadrilateral& a, const Quadrilateral& b) { return a[0].y < b[0].y; });
  for (size_t begin = 0; begin < regions.size();) {
    size_t end = begin + 1;
    while (end < regions.size() && regions[end][0].y - regions[end - 1][0].y < kNewLine) ++end;
    std::stable_sort(regions.begin() + static_cast<std::ptrdiff_t>(begin),
                     regions.begin() + static_cast<std::ptrdiff_t>(end),
                     [](const Quadrilateral& a, const Quadrilateral& b) { return a[0].x < b[0].x; });
    begin = end;
  }
}

}  // namespace

std::vector<Quadrilateral> text_regions(std::span<const float> map, int64_t map_width, int64_t map_height,
                                        int64_t width, int64_t height, const RegionRule& rule) {
  std::vector<uint8_t> pixels = text_pixels(map, map_width, map_height, rule.threshold);
  std::vector<Quadrilateral> regions;
  size_t seen = 0;
  for (int64_t place = 0; place < map_width * map_height && seen < kMostRegions; ++place) {
    if (pixels[static_cast<size_t>(place)] != 1) continue;
    ++seen;
    const SmallestRectangle found = smallest_rectangle(border_of(pixels, map_width, map_height, place));
    if (found.side < kLeastSide) continue;
    if (mean_within(map, map_width, map_height, found.corners) < rule.box_threshold) continue;
    SmallestRectangle grown = smallest_rectangle(grown_polygon(found.corners, rule.unclip_ratio));
    if (grown.side < kLeastGrownSide) continue;
    const auto scaled = [](double value, int64_t from, int64_t to) {
      return std::clamp(std::nearbyint(value / static_cast<double>(from) * static_cast<double>(to)), 0.0,
                        static_cast<double>(to));
    };
    for (Point& corner : grown.corners)
      corner = {scaled(corner.x, map_width, width), scaled(corner.y, map_height, height)};
    const Quadrilateral region = within_picture(grown.corners, width, height);
    if (std::trunc(distance(region[0], region[1])) <= 3 || std::trunc(distance(region[0], region[3])) <= 3) continue;
    regions.push_back(region);
  }
  sort_for_reading(regions);
  return regions;
}

}  // namespace transom
