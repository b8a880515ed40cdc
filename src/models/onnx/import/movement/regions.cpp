// SPDX-License-Identifier: Apache-2.0
// RoiAlign (He et al., 2017): parts of images, each brought to one size by samples between the pixels.
#include <cmath>

#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/operators.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

constexpr int64_t kMostSamples = int64_t{1} << 26;  // of all regions together

struct RegionPooling {
  int64_t height, width;  // cells of a result
  double scale, offset;   // from the coordinates of regions to those of pixels
  bool greatest;          // of the samples of a cell, in place of their mean
};

// Samples along one axis, [regions, cells * grid]: the pixels on both sides and their weights, 0 for both outside.
struct RegionTaps {
  Tensor places[2], weights[2];
};

RegionTaps taps_along(const Tensor& start, const Tensor& length, int64_t cells, int64_t grid, int64_t extent) {
  const Tensor i = cast(iota({1, cells * grid}, 1), start.dtype());
  const Tensor at = add(start, mul(length, (i + 0.5) * (1 / static_cast<double>(cells * grid))));
  const auto number = [&](double value) { return constant(value, at.dtype()); };
  const auto last = static_cast<double>(extent - 1);
  const Tensor outside = logical_or(less(at, number(-1)), greater(at, number(static_cast<double>(extent))));
  const Tensor inside = minimum(maximum(at, number(0)), number(last));
  const Tensor below = floor(inside), fraction = sub(inside, below), nothing = number(0);
  return {{cast(below, DType::kInt64), cast(minimum(below + 1, number(last)), DType::kInt64)},
          {select(outside, nothing, sub(number(1), fraction)), select(outside, nothing, fraction)}};
}

// x [N, C, H, W], regions [R, 4] of x0, y0, x1, y1, images i64 [R] -> [R, C, height, width]
Tensor pooled_regions(const RegionPooling& p, const Tensor& x, const Tensor& regions, const Tensor& images,
                      int64_t rows, int64_t columns) {
  const int64_t R = regions.dim(0), N = x.dim(0), C = x.dim(1), H = x.dim(2), W = x.dim(3);
  const auto edge = [&](int64_t i) { return slice(regions, 1, i, i + 1) * p.scale - p.offset; };
  const Tensor left = edge(0), top = edge(1);
  Tensor width = sub(edge(2), left), height = sub(edge(3), top);
  if (p.offset == 0) width = maximum(width, constant(1, x.dtype())), height = maximum(height, constant(1, x.dtype()));
  const RegionTaps down = taps_along(top, height, p.height, rows, H),
                   across = taps_along(left, width, p.width, columns, W);
  const Tensor pixels = reshape(permute(x, {0, 2, 3, 1}), {N * H * W, C});
  const int64_t A = p.height * rows, B = p.width * columns;
  Tensor total;
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 2; ++b) {
      const Tensor line = add(mul(reshape(images, {R, 1, 1}), integer(H)), reshape(down.places[a], {R, A, 1}));
      const Tensor place = add(mul(line, integer(W)), reshape(across.places[b], {R, 1, B}));
      const Tensor weight = mul(reshape(down.weights[a], {R, A, 1, 1}), reshape(across.weights[b], {R, 1, B, 1}));
      const Tensor part = mul(reshape(gather(pixels, reshape(place, {R * A * B}), 0), {R, A, B, C}), weight);
      total = !total.defined() ? part : p.greatest ? maximum(total, part) : add(total, part);
    }
  const Tensor cells = reshape(total, {R, p.height, rows, p.width, columns, C});
  const Tensor result =
      p.greatest ? reduce_max(cells, {2, 4}) : reduce_sum(cells, {2, 4}) * (1 / static_cast<double>(rows * columns));
  return permute(result, {0, 3, 1, 2});
}

Results roi_align(Call& call) {
  const Tensor &given = call.tensor(0), &regions = call.tensor(1), &images = call.tensor(2);
  call.require(
      given.rank() == 4 && regions.rank() == 2 && regions.dim(1) == 4 && images.shape() == Shape{regions.dim(0)},
      "expected x [N, C, H, W], rois [R, 4] and batch_indices [R]");
  call.require(given.size() > 0, "its input is empty");
  const std::string mode = call.text("mode", "avg"),
                    corners = call.text("coordinate_transformation_mode",
                                        call.version() < 16 ? "output_half_pixel" : "half_pixel");
  call.require(mode == "avg" || mode == "max", "the mode is unknown");
  call.require(corners == "half_pixel" || corners == "output_half_pixel",
               "the coordinate_transformation_mode is unknown");
  const RegionPooling p{.height = call.integer("output_height", 1),
                        .width = call.integer("output_width", 1),
                        .scale = call.number("spatial_scale", 1),
                        .offset = corners == "half_pixel" ? 0.5 : 0,
                        .greatest = mode == "max"};
  const int64_t ratio = call.integer("sampling_ratio", 0), R = regions.dim(0);
  constexpr int64_t kMost = 1 << 12;
  call.require(p.height > 0 && p.width > 0 && p.height <= kMost && p.width <= kMost && ratio >= 0 && ratio <= kMost,
               "a size is impossible");
  const Tensor x = wide(given), boxes = cast(regions, x.dtype()), rows_of = cast(images, DType::kInt64);
  const auto result = [&](const Tensor& y) { return Results{call.like(0, cast(y, given.dtype()))}; };
  if (R == 0) return result(zeros({0, x.dim(1), p.height, p.width}, x.dtype()));
  if (ratio > 0) {
    if (R > kMostSamples / (p.height * p.width * ratio * ratio)) call.not_supported("so many samples");
    return result(pooled_regions(p, x, boxes, rows_of, ratio, ratio));
  }
  // As many samples as pixels of the region lie in a cell.
  const std::vector<double> edges = call.numbers(1);
  std::vector<Tensor> parts;
  double samples = 0;
  for (int64_t r = 0; r < R; ++r) {
    const auto grid = [&](size_t first, int64_t cells) {
      double length =
          (edges[static_cast<size_t>(4 * r) + first + 2] - edges[static_cast<size_t>(4 * r) + first]) * p.scale;
      if (p.offset == 0) length = std::max(length, 1.0);
      const double count = std::ceil(length / static_cast<double>(cells));
      if (!(count <= kMost)) call.not_supported("a region of so many pixels");
      return std::max<int64_t>(static_cast<int64_t>(count), 1);
    };
    const int64_t columns = grid(0, p.width), rows = grid(1, p.height);
    samples += static_cast<double>(rows * columns) * static_cast<double>(p.height * p.width);
    if (samples > static_cast<double>(kMostSamples)) call.not_supported("so many samples");
    parts.push_back(pooled_regions(p, x, slice(boxes, 0, r, r + 1), slice(rows_of, 0, r, r + 1), rows, columns));
  }
  return result(concatenate(parts, 0));
}

}  // namespace

const RegisterOperators kRegions = {{"RoiAlign", roi_align, 10}};

}  // namespace transom::onnx
