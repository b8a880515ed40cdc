// SPDX-License-Identifier: Apache-2.0
// Four corners in a picture, and the smallest rectangle around points.
#pragma once

#include <array>
#include <vector>

namespace transom {

struct Point {
  double x = 0, y = 0;
};
double distance(Point a, Point b);

// From the top left clockwise.
using Quadrilateral = std::array<Point, 4>;

// The rectangle of the smallest area around points, turned as it lies best; its shorter side is `side`.
struct SmallestRectangle {
  Quadrilateral corners;
  double side = 0;
};
SmallestRectangle smallest_rectangle(std::vector<Point> points);

// The corners of a convex polygon around these, in order.
std::vector<Point> convex_hull(std::vector<Point> points);

}  // namespace transom
