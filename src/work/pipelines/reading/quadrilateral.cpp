// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/reading/quadrilateral.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace transom {
namespace {

double cross(Point o, Point a, Point b) { return (a.x - o.x) * (b.y - o.y) - (a.y - o.y) * (b.x - o.x); }

// Left ones and right ones, each from the top.
Quadrilateral in_order(Quadrilateral corners) {
  std::stable_sort(corners.begin(), corners.end(), [](Point a, Point b) { return a.x < b.x; });
  const bool first_is_top = corners[1].y > corners[0].y, third_is_top = corners[3].y > corners[2].y;
  return {corners[first_is_top ? 0 : 1], corners[third_is_top ? 2 : 3], corners[third_is_top ? 3 : 2],
          corners[first_is_top ? 1 : 0]};
}

}  // namespace

double distance(Point a, Point b) { return std::hypot(a.x - b.x, a.y - b.y); }

std::vector<Point> convex_hull(std::vector<Point> points) {
  const auto before = [](Point a, Point b) { return a.x != b.x ? a.x < b.x : a.y < b.y; };
  std::sort(points.begin(), points.end(), before);
  points.erase(std::unique(points.begin(), points.end(), [](Point a, Point b) { return a.x == b.x && a.y == b.y; }),
               points.end());
  if (points.size() < 3) return points;
  std::vector<Point> hull;
  const auto take = [&](Point point, size_t least) {
    while (hull.size() >= least && cross(hull[hull.size() - 2], hull.back(), point) <= 0) hull.pop_back();
    hull.push_back(point);
  };
  for (const Point point : points) take(point, 2);
  const size_t lower = hull.size() + 1;
  for (size_t i = points.size() - 1; i-- > 0;) take(points[i], lower);
  hull.pop_back();
  return hull;
}

SmallestRectangle smallest_rectangle(std::vector<Point> points) {
  const std::vector<Point> hull = convex_hull(std::move(points));
  SmallestRectangle best;
  if (hull.size() < 3) {
    for (size_t i = 0; i < 4; ++i) best.corners[i] = hull.empty() ? Point{} : hull[i % hull.size()];
    best.corners = in_order(best.corners);
    return best;
  }
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < hull.size(); ++i) {
    const Point a = hull[i], b = hull[(i + 1) % hull.size()];
    const double length = distance(a, b);
    if (length == 0) continue;
    const Point along{(b.x - a.x) / length, (b.y - a.y) / length};
    double low = 0, high = 0, left = 0, right = 0;
    for (const Point point : hull) {
      const Point from{point.x - a.x, point.y - a.y};
      const double u = from.x * along.x + from.y * along.y, v = from.y * along.x - from.x * along.y;
      left = std::min(left, u), right = std::max(right, u), low = std::min(low, v), high = std::max(high, v);
    }
    const double area = (right - left) * (high - low);
    if (area >= least) continue;
    least = area;
    const auto corner = [&](double u, double v) {
      return Point{a.x + u * along.x - v * along.y, a.y + u * along.y + v * along.x};
    };
    best.corners = in_order({corner(left, low), corner(right, low), corner(right, high), corner(left, high)});
    best.side = std::min(right - left, high - low);
  }
  return best;
}

}  // namespace transom
