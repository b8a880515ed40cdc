// SPDX-License-Identifier: Apache-2.0
// Sampling of images at places that another tensor names: GridSample, AffineGrid (Jaderberg et al., 2015).
#include <algorithm>

#include "base/error.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/operators.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

enum class Padding { kZeros, kBorder, kReflection };

struct Sampling {
  Padding padding;
  bool align_corners;
  // The outermost places of an axis: the centres of its corners, or their edges.
  double low() const { return align_corners ? 0 : -0.5; }
  double high(int64_t extent) const { return static_cast<double>(extent) - (align_corners ? 1 : 0.5); }
};

// Places outside of an axis, moved inside of it.
Tensor inside(const Sampling& s, const Tensor& x, int64_t extent) {
  const auto number = [&](double value) { return constant(value, x.dtype()); };
  if (s.padding == Padding::kZeros) return x;
  if (s.padding == Padding::kBorder) return minimum(maximum(x, number(0)), number(static_cast<double>(extent - 1)));
  const double low = s.low(), length = s.high(extent) - low;
  if (length <= 0) return broadcast_to(number(0), x.shape());
  const Tensor folded = remainder(sub(x, number(low)), number(2 * length));
  const Tensor mirrored = select(greater(folded, number(length)), sub(number(2 * length), folded), folded);
  return add(mirrored, number(low));
}

// The weights of the taps around a place by its distance from the one below it.
std::vector<Tensor> interpolation_weights(bool cubic, const Tensor& fraction) {
  const auto one_minus = sub(constant(1, fraction.dtype()), fraction);
  if (!cubic) return {one_minus, fraction};
  constexpr double a = -0.75;
  const auto near = [&](const Tensor& x) { return mul(mul((a + 2) * x - (a + 3), x), x) + 1; };
  const auto far = [&](const Tensor& x) { return mul(mul(a * x - 5 * a, x) + 8 * a, x) - 4 * a; };
  return {far(fraction + 1), near(fraction), near(one_minus), far(one_minus + 1)};
}

// x [N, C, spatial...], flat places within an image i64 [N, places] -> [N, C, places]
Tensor pixels(const Tensor& x, const Tensor& places) {
  const int64_t N = x.dim(0), C = x.dim(1), each = C == 0 || N == 0 ? 0 : x.size() / N / C, count = places.dim(1);
  const Tensor flat = reshape(x, {N, C, each});
  return take_along_axis(flat, broadcast_to(reshape(places, {N, 1, count}), {N, C, count}), 2);
}

struct Axis {
  std::vector<Tensor> places, weights;  // of each tap: i64 and floating [N, places]
};

// Adds up all combinations of taps; a tap outside of the image counts nothing where the padding is zeros.
Tensor interpolated(const Tensor& x, const std::vector<Axis>& axes, const Sampling& s) {
  const Shape& shape = x.shape();
  Tensor total;
  std::vector<size_t> tap(axes.size(), 0);
  while (true) {
    Tensor place, weight, visible;
    for (size_t i = 0; i < axes.size(); ++i) {
      const int64_t extent = shape[i + 2];
      Tensor at = axes[i].places[tap[i]];
      if (s.padding == Padding::kZeros) {
        const Tensor seen = logical_and(greater_equal(at, integer(0)), less(at, integer(extent)));
        visible = visible.defined() ? logical_and(visible, seen) : seen;
      }
      at = minimum(maximum(at, integer(0)), integer(extent - 1));
      place = place.defined() ? add(mul(place, integer(extent)), at) : at;
      weight = weight.defined() ? mul(weight, axes[i].weights[tap[i]]) : axes[i].weights[tap[i]];
    }
    Tensor values = pixels(x, place);
    if (visible.defined()) values = select(unsqueeze(visible, 1), values, constant(0, x.dtype()));
    const Tensor part = mul(values, unsqueeze(weight, 1));
    total = total.defined() ? add(total, part) : part;
    size_t i = axes.size();
    while (i > 0 && ++tap[i - 1] == axes[i - 1].places.size()) tap[--i] = 0;
    if (i == 0) return total;
  }
}

Results grid_sample(Call& call) {
  const Tensor& given = call.tensor(0);
  const auto r = given.rank() - 2;
  const Tensor& grid = call.tensor(1);
  call.require(r >= 1 && grid.rank() == given.rank() && grid.dim(-1) == r && grid.dim(0) == given.dim(0),
               "the grid does not fit its input");
  if (r > 3) call.not_supported("more than three spatial axes");
  for (int64_t i = 0; i < r; ++i) call.require(given.dim(i + 2) > 0, "its input is empty");
  std::string mode = call.text("mode", call.version() < 20 ? "bilinear" : "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  call.require(mode == "linear" || mode == "nearest" || mode == "cubic", "the mode is unknown");
  const std::string padding = call.text("padding_mode", "zeros");
  call.require(padding == "zeros" || padding == "border" || padding == "reflection", "the padding_mode is unknown");
  const Sampling s{.padding = padding == "zeros"    ? Padding::kZeros
                              : padding == "border" ? Padding::kBorder
                                                    : Padding::kReflection,
                   .align_corners = call.integer("align_corners", 0) != 0};
  const Tensor x = wide(given);
  const int64_t N = x.dim(0);
  Shape result{N, x.dim(1)};
  result.insert(result.end(), grid.shape().begin() + 1, grid.shape().end() - 1);
  const int64_t count = elements(Shape(grid.shape().begin() + 1, grid.shape().end() - 1));
  const Tensor flat = cast(reshape(grid, {N, count, r}), x.dtype());
  std::vector<Axis> axes;
  for (int64_t i = 0; i < r; ++i) {
    const int64_t extent = x.dim(i + 2);
    // Coordinates stand in the order of x, y, z: the last axis first.
    const Tensor n = squeeze(slice(flat, 2, r - 1 - i, r - i), 2);
    const auto length = static_cast<double>(extent);
    Tensor at = s.align_corners ? (n + 1) * (0.5 * (length - 1)) : ((n + 1) * length - 1) * 0.5;
    if (mode == "nearest") at = round(at);
    const Tensor low = constant(s.low(), at.dtype()), high = constant(s.high(extent), at.dtype());
    at = select(logical_or(less(at, low), greater(at, high)), inside(s, at, extent), at);
    Axis axis;
    const Tensor below = mode == "nearest" ? at : floor(at);
    const int64_t first = mode == "cubic" ? -1 : 0, last = mode == "cubic" ? 2 : mode == "linear" ? 1 : 0;
    axis.weights = mode == "nearest" ? std::vector<Tensor>{broadcast_to(constant(1, at.dtype()), at.shape())}
                                     : interpolation_weights(mode == "cubic", sub(at, below));
    for (int64_t tap = first; tap <= last; ++tap) {
      Tensor place = below + static_cast<double>(tap);
      if (s.padding == Padding::kReflection) place = inside(s, place, extent);
      axis.places.push_back(cast(place, DType::kInt64));
    }
    axes.push_back(std::move(axis));
  }
  return {call.like(0, cast(reshape(interpolated(x, axes, s), result), given.dtype()))};
}

// Points [N, spatial..., r] of an even grid after the transformation theta [N, r, r + 1].
Results affine_grid(Call& call) {
  const Tensor& theta = call.tensor(0);
  const std::vector<int64_t> size = call.integers(1);
  const auto r = static_cast<int64_t>(size.size()) - 2;
  call.require((r == 2 || r == 3) && theta.shape() == Shape{size[0], r, r + 1}, "theta does not fit the size");
  Shape spatial(size.begin() + 2, size.end());
  for (const int64_t extent : spatial) call.require(extent > 0 && extent < int64_t{1} << 20, "a size is impossible");
  const bool corners = call.integer("align_corners", 0) != 0;
  std::vector<Tensor> parts;  // x, y, z, 1
  const Tensor wide_theta = wide(theta);
  for (int64_t i = r - 1; i >= 0; --i) {
    const auto extent = static_cast<double>(spatial[static_cast<size_t>(i)]);
    const Tensor at = cast(iota(spatial, i), wide_theta.dtype());
    const Tensor point = !corners      ? (2 * at + 1) * (1 / extent) - 1
                         : extent == 1 ? at - 1
                                       : at * (2 / (extent - 1)) - 1;
    parts.push_back(reshape(point, {elements(spatial), 1}));
  }
  parts.push_back(broadcast_to(constant(1, wide_theta.dtype()), {elements(spatial), 1}));
  const Tensor points = concatenate(parts, 1);  // [places, r + 1]
  Shape result{size[0]};
  result.insert(result.end(), spatial.begin(), spatial.end());
  result.push_back(r);
  return {call.like(
      0, cast(reshape(matmul(points, transpose(wide_theta, 1, 2), call.computing()), result), theta.dtype()))};
}

}  // namespace

const RegisterOperators kSampling = {{"GridSample", grid_sample, 16}, {"AffineGrid", affine_grid, 20}};

}  // namespace transom::onnx
