// SPDX-License-Identifier: Apache-2.0
// Resize and Upsample: axis by axis, each a product with a matrix of weights that is made on the host. Nearest
// neighbours are gathered.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/ops/all_axes.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/graph_run.h"
#include "models/onnx/import/run/operators.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

struct Settings {
  std::string mode, coordinates, nearest;
  double cubic_a, extrapolation;
  bool exclude_outside, antialias;
};

// One axis: its extents, the scale, the part of it that tf_crop_and_resize takes.
struct AxisMap {
  int64_t input, output;
  double scale, roi_begin = 0, roi_end = 1;
};

// The place in the input that the output's place i looks at.
double source_of(const Call& call, const Settings& s, const AxisMap& m, int64_t i) {
  const auto place = static_cast<double>(i), width = static_cast<double>(m.input);
  const double whole = m.scale * width;  // the output's extent before it was rounded
  const std::string& c = s.coordinates;
  if (c == "align_corners") return whole == 1 ? 0 : place * (width - 1) / (whole - 1);
  if (c == "asymmetric") return place / m.scale;
  if (c == "pytorch_half_pixel") return m.output == 1 ? 0 : (place + 0.5) / m.scale - 0.5;
  if (c == "half_pixel") return (place + 0.5) / m.scale - 0.5;
  if (c == "half_pixel_symmetric")
    return width / 2 * (1 - static_cast<double>(m.output) / whole) + (place + 0.5) / m.scale - 0.5;
  if (c == "tf_half_pixel_for_nn") return (place + 0.5) / m.scale;
  if (c == "tf_crop_and_resize") {
    const double part = m.roi_end - m.roi_begin;
    return m.roi_begin * (width - 1) +
           (m.output == 1 ? part * (width - 1) / 2 : place * part * (width - 1) / static_cast<double>(m.output - 1));
  }
  call.not_supported(fmt::format("the coordinates {}", quoted(c)));
}

int64_t nearest_of(const Call& call, const Settings& s, double x) {
  if (s.nearest == "floor") return static_cast<int64_t>(std::floor(x));
  if (s.nearest == "ceil") return static_cast<int64_t>(std::ceil(x));
  if (s.nearest == "round_prefer_floor") return static_cast<int64_t>(std::ceil(x - 0.5));
  if (s.nearest == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5));
  call.not_supported(fmt::format("the nearest_mode {}", quoted(s.nearest)));
}

// Keys' cubic convolution kernel (1981), or the triangle of linear interpolation, at a distance.
double kernel(const Settings& s, double distance) {
  const double x = std::fabs(distance), a = s.cubic_a;
  if (s.mode == "linear") return std::max(0.0, 1 - x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// The weights [output, input] of an axis.
std::vector<double> weights_of(const Call& call, const Settings& s, const AxisMap& m) {
  std::vector<double> weights(static_cast<size_t>(m.output * m.input), 0);
  const double stretch = s.antialias ? std::min(m.scale, 1.0) : 1;  // wider kernels where an image shrinks
  const double reach = (s.mode == "linear" ? 1 : 2) / stretch;
  for (int64_t i = 0; i < m.output; ++i) {
    const double x = source_of(call, s, m, i);
    const auto first = static_cast<int64_t>(std::floor(x - reach)), last = static_cast<int64_t>(std::ceil(x + reach));
    double total = 0;
    double* row = weights.data() + i * m.input;
    for (int64_t j = first; j <= last; ++j) {
      if (s.exclude_outside && (j < 0 || j >= m.input)) continue;
      const double weight = kernel(s, (static_cast<double>(j) - x) * stretch);
      row[std::clamp<int64_t>(j, 0, m.input - 1)] += weight;
      total += weight;
    }
    if ((s.exclude_outside || s.antialias) && total != 0)
      for (int64_t j = 0; j < m.input; ++j) row[j] /= total;
  }
  return weights;
}

Tensor resized(const Call& call, const Settings& s, const AxisMap& m, const Tensor& x, int64_t axis) {
  call.require(m.input > 0, "an empty axis cannot be resized");
  Tensor y;
  if (s.mode == "nearest") {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < m.output; ++i)
      places.push_back(std::clamp<int64_t>(nearest_of(call, s, source_of(call, s, m, i)), 0, m.input - 1));
    y = gather(x, integers(places), axis);
  } else {
    call.require(m.output <= (int64_t{1} << 26) / m.input, "the result is too large");
    const Tensor weights = numbers(weights_of(call, s, m), {m.output, m.input}, x.dtype());
    const Tensor last = transpose(x, axis, -1);
    y = transpose(matmul(last, transpose(weights, 0, 1), call.computing()), axis, -1);
  }
  if (s.coordinates != "tf_crop_and_resize") return y;
  std::vector<int64_t> outside;
  for (int64_t i = 0; i < m.output; ++i) {
    const double x_source = source_of(call, s, m, i);
    outside.push_back(x_source < 0 || x_source > static_cast<double>(m.input - 1));
  }
  Shape shape(static_cast<size_t>(x.rank()), 1);
  shape[static_cast<size_t>(axis)] = m.output;
  return select(integers(outside, shape, DType::kBool), constant(s.extrapolation, x.dtype()), y);
}

Results resize_axes(const Call& call, const Settings& s, const std::vector<int64_t>& axes,
                    const std::vector<double>& scales, const std::vector<int64_t>& sizes,
                    const std::vector<double>& roi) {
  const Tensor& given = call.tensor(0);
  call.require(sizes.empty() ? scales.size() == axes.size() : sizes.size() == axes.size(),
               "scales or sizes must have a number for each axis");
  call.require(roi.empty() || roi.size() == 2 * axes.size(), "roi must have two numbers for each axis");
  const std::string policy = call.text("keep_aspect_ratio_policy", "stretch");
  double common = 0;
  if (!sizes.empty() && policy != "stretch") {
    call.require(policy == "not_larger" || policy == "not_smaller", "keep_aspect_ratio_policy is unknown");
    for (size_t i = 0; i < axes.size(); ++i) {
      const double ratio = static_cast<double>(sizes[i]) / static_cast<double>(given.dim(axes[i]));
      common = i == 0 ? ratio : policy == "not_larger" ? std::min(common, ratio) : std::max(common, ratio);
    }
  }
  const bool nearest = s.mode == "nearest";
  call.require(nearest || is_floating(call.type(0)) || is_integer(call.type(0)), "expected numbers");
  Tensor x = nearest ? given : is_floating(call.type(0)) ? wide(given) : cast(given, DType::kFloat64);
  for (size_t i = 0; i < axes.size(); ++i) {
    AxisMap m{.input = x.dim(axes[i]), .output = 0, .scale = 1};
    const auto extent = static_cast<double>(m.input);
    if (sizes.empty()) {
      m.scale = scales[i];
      call.require(m.scale > 0 && extent * m.scale < 1e12, "a scale is impossible");
      m.output = static_cast<int64_t>(std::floor(extent * m.scale));
    } else {
      m.output = common > 0 ? static_cast<int64_t>(std::floor(common * extent + 0.5)) : sizes[i];
      m.scale = common > 0 ? common : static_cast<double>(sizes[i]) / extent;
    }
    call.require(m.output >= 0 && m.output < int64_t{1} << 30, "a size is impossible");
    if (!roi.empty()) m.roi_begin = roi[i], m.roi_end = roi[i + axes.size()];
    const bool crops = s.coordinates == "tf_crop_and_resize" && (m.roi_begin != 0 || m.roi_end != 1);
    if (m.scale == 1 && m.output == m.input && !crops) continue;
    x = resized(call, s, m, x, axes[i]);
  }
  if (!nearest && !is_floating(call.type(0))) return {cast_value({ElementType::kFloat64, round(x)}, call.type(0))};
  return {{call.type(0), cast(x, given.dtype())}};
}

Settings settings_of(const Call& call) {
  Settings s{.mode = call.text("mode", "nearest"),
             .coordinates = call.text("coordinate_transformation_mode", "half_pixel"),
             .nearest = call.text("nearest_mode", "round_prefer_floor"),
             .cubic_a = call.number("cubic_coeff_a", -0.75),
             .extrapolation = call.number("extrapolation_value", 0),
             .exclude_outside = call.integer("exclude_outside", 0) != 0,
             .antialias = call.integer("antialias", 0) != 0};
  if (s.mode == "bilinear") s.mode = "linear";
  if (s.mode != "nearest" && s.mode != "linear" && s.mode != "cubic")
    call.not_supported(fmt::format("the mode {}", quoted(s.mode)));
  return s;
}

Results resize(Call& call) {
  const Tensor& x = call.tensor(0);
  Settings s = settings_of(call);
  if (call.version() < 11) {  // scales alone; places are those of asymmetric, rounded down
    s.coordinates = "asymmetric";
    s.nearest = "floor";
    return resize_axes(call, s, all_axes(x), call.numbers(1), {}, {});
  }
  const std::vector<int64_t> axes = call.attribute("axes") ? call.axes(call.integers("axes"), x.rank()) : all_axes(x);
  std::vector<double> roi, scales;
  std::vector<int64_t> sizes;
  if (s.coordinates == "tf_crop_and_resize" && call.has(1)) roi = call.numbers(1);
  if (call.has(2)) scales = call.numbers(2);
  if (call.has(3)) sizes = call.integers(3);
  return resize_axes(call, s, axes, scales, sizes, roi);
}

Results upsample(Call& call) {
  Settings s = settings_of(call);
  s.coordinates = "asymmetric";
  s.nearest = "floor";
  std::vector<double> scales = call.version() >= 9 ? call.numbers(1) : call.numbers("scales");
  return resize_axes(call, s, all_axes(call.tensor(0)), scales, {}, {});
}

}  // namespace

const RegisterOperators kResize = {{"Resize", resize, 10}, {"Upsample", upsample, 7, 9}};

}  // namespace transom::onnx
