// SPDX-License-Identifier: Apache-2.0
// Pooling over windows and over all places.
#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "graph/ops/rules.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/products/windows.h"
#include "models/onnx/import/run/graph_run.h"
#include "models/onnx/import/run/operators.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

using Axes = std::vector<int64_t>;

Windows windows_of(const Call& call) {
  const Axes window = call.integers("kernel_shape");
  call.require(call.attribute("kernel_shape") != nullptr, "kernel_shape is missing");
  return Windows::of(call, call.shape(0), window, call.integer("ceil_mode", 0) != 0);
}

// x padded so far that every window fits, those that ceil_mode adds too.
Tensor padded(const Tensor& x, const Windows& w, const Tensor& value) {
  Axes low(2, 0), high(2, 0);
  Tensor cut = x;
  for (size_t i = 0; i < w.window.size(); ++i) {
    const int64_t extent = x.shape()[i + 2];
    const int64_t reach = (w.extent(i, extent) - 1) * w.strides[i] + w.covered(i);
    low.push_back(w.low[i]);
    high.push_back(std::max<int64_t>(reach - extent - w.low[i], 0));
  }
  const Tensor grown = pad(cut, low, high);
  const bool nothing = grown.shape() == x.shape();
  if (nothing) return x;
  return select(pad(broadcast_to(constant(1, DType::kBool), x.shape()), low, high), grown, value);
}

// Joins the taps of all windows, axis by axis: each is a strided slice.
template <typename Join>
Tensor joined_taps(Tensor x, const Windows& w, const Shape& extents, Join&& join) {
  for (size_t i = w.window.size(); i-- > 0;) {
    const auto axis = static_cast<int64_t>(i) + 2;
    const int64_t last = (extents[i] - 1) * w.strides[i];
    Tensor joined;
    for (int64_t tap = 0; tap < w.window[i]; ++tap) {
      const int64_t start = tap * w.dilations[i];
      const Tensor values = slice(x, axis, start, start + last + 1, w.strides[i]);
      joined = joined.defined() ? join(joined, values) : values;
    }
    x = joined;
  }
  return x;
}

Shape extents_of(const Call& call, const Windows& w, const Shape& x) {
  Shape extents;
  for (size_t i = 0; i < w.window.size(); ++i) {
    extents.push_back(w.extent(i, x[i + 2]));
    call.require(extents.back() > 0, "the window is larger than the padded input");
    call.require(w.window[i] <= 65536, "the window is too large");
  }
  return extents;
}

// The lowest value of a type, and a type in which extremes are offered.
Tensor comparable(const Tensor& x) {
  return x.dtype() == DType::kUInt8 || x.dtype() == DType::kInt8 ? cast(x, DType::kInt32) : x;
}
Tensor lowest(DType dtype) {
  if (is_floating(dtype)) return constant(-std::numeric_limits<double>::infinity(), dtype);
  return integers({dtype == DType::kInt64 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int32_t>::min()},
                  {}, dtype);
}

// The places of the largest elements in the flat input. Axis by axis as the values: of equal ones the first.
Tensor places_of_largest(const Call& call, const Tensor& x, const Windows& w, const Shape& extents) {
  const Shape& shape = call.shape(0);
  const bool column_major = call.integer("storage_order", 0) != 0;
  Tensor places = mul(iota(shape, 0), integer(elements(shape) / std::max<int64_t>(shape[0], 1)));
  int64_t plane = 1;
  for (size_t i = 2; i < shape.size(); ++i) plane *= shape[i];
  places = add(places, mul(iota(shape, 1), integer(plane)));
  int64_t stride = 1;
  for (size_t n = 2; n < shape.size(); ++n) {
    const size_t axis = column_major ? n : shape.size() + 1 - n;
    places = add(places, mul(iota(shape, static_cast<int64_t>(axis)), integer(stride)));
    stride *= shape[axis];
  }
  // All taps side by side: values [..., taps], so that the first largest one wins in the order of the window.
  std::vector<Tensor> values, taps;
  const Tensor all_values = padded(x, w, lowest(x.dtype())), all_places = padded(places, w, integer(0));
  call.require(elements(w.window) <= 4096, "the window is too large for places");
  for_each_index(w.window, [&](const Axes& tap) {
    Tensor value = all_values, place = all_places;
    for (size_t i = 0; i < tap.size(); ++i) {
      const auto axis = static_cast<int64_t>(i) + 2;
      const int64_t start = tap[i] * w.dilations[i], end = start + (extents[i] - 1) * w.strides[i] + 1;
      value = slice(value, axis, start, end, w.strides[i]);
      place = slice(place, axis, start, end, w.strides[i]);
    }
    values.push_back(unsqueeze(value, value.rank()));
    taps.push_back(unsqueeze(place, place.rank()));
  });
  const int64_t last = static_cast<int64_t>(shape.size());
  const Tensor best = arg_max(concatenate(values, last), last);
  return squeeze(take_along_axis(concatenate(taps, last), unsqueeze(best, last), last), last);
}

Results max_pool_operator(Call& call) {
  const Windows w = windows_of(call);
  const Tensor x = comparable(call.tensor(0));
  const Shape extents = extents_of(call, w, x.shape());
  const bool plain = is_floating(x.dtype()) && !w.ceil_mode && w.window.size() <= 3 &&
                     std::all_of(w.dilations.begin(), w.dilations.end(), [](int64_t d) { return d == 1; }) &&
                     std::equal(w.low.begin(), w.low.end(), w.window.begin(), std::less<>()) &&
                     std::equal(w.high.begin(), w.high.end(), w.window.begin(), std::less<>());
  Tensor y = plain ? max_pool(x, {.window = w.window, .strides = w.strides, .low = w.low, .high = w.high})
                   : joined_taps(padded(x, w, lowest(x.dtype())), w, extents, maximum);
  Results results{{call.type(0), cast(y, call.tensor(0).dtype())}};
  if (call.wants(1)) results.emplace_back(ElementType::kInt64, places_of_largest(call, x, w, extents));
  return results;
}

Results average_pool_operator(Call& call) {
  Windows w = windows_of(call);
  const Tensor x = wide(call.tensor(0));
  const Shape extents = extents_of(call, w, x.shape());
  const Tensor zero = constant(0, x.dtype());
  const Tensor total = joined_taps(padded(x, w, zero), w, extents, add);
  // How many elements each window has: those of the input, or with count_include_pad those of the padded input.
  Shape ones = x.shape();
  ones[0] = ones[1] = 1;
  Tensor counted = broadcast_to(constant(1, x.dtype()), ones);
  if (call.integer("count_include_pad", 0) != 0) {
    Shape grown{1, 1};
    for (size_t i = 0; i < w.window.size(); ++i) grown.push_back(ones[i + 2] + w.low[i] + w.high[i]);
    counted = broadcast_to(constant(1, x.dtype()), grown);
    Windows inner = w;
    std::fill(inner.low.begin(), inner.low.end(), 0);
    std::fill(inner.high.begin(), inner.high.end(), 0);
    Axes low(2, 0), high(2, 0);
    for (size_t i = 0; i < w.window.size(); ++i) {
      low.push_back(0);
      high.push_back(std::max<int64_t>((extents[i] - 1) * w.strides[i] + w.covered(i) - grown[i + 2], 0));
    }
    counted = joined_taps(pad(counted, low, high), inner, extents, add);
  } else {
    counted = joined_taps(padded(counted, w, zero), w, extents, add);
  }
  return {call.like(0, cast(div(total, counted), call.tensor(0).dtype()))};
}

Tensor norm(const Tensor& x, double p, const std::function<Tensor(const Tensor&)>& total) {
  if (p == 1) return total(abs(x));
  if (p == 2) return sqrt(total(mul(x, x)));
  const auto number = [&](double value) { return constant(value, x.dtype()); };
  return pow(total(pow(abs(x), number(p))), number(1 / p));
}

double power_of(const Call& call) {
  return call.version() < 2 ? call.number("p", 2) : static_cast<double>(call.integer("p", 2));
}

Results lp_pool(Call& call) {
  const Windows w = windows_of(call);
  const Tensor x = wide(call.tensor(0));
  const Shape extents = extents_of(call, w, x.shape());
  const Tensor y = norm(x, power_of(call), [&](const Tensor& terms) {
    return joined_taps(padded(terms, w, constant(0, x.dtype())), w, extents, add);
  });
  return {call.like(0, cast(y, call.tensor(0).dtype()))};
}

Axes spatial_axes(const Call& call) {
  call.require(call.tensor(0).rank() >= 2, "expected [N, C, spatial...]");
  Axes axes(static_cast<size_t>(call.tensor(0).rank()) - 2);
  std::iota(axes.begin(), axes.end(), int64_t{2});
  return axes;
}

Results global_average_pool(Call& call) {
  const Tensor& x = call.tensor(0);
  return {call.like(0, cast(mean(wide(x), spatial_axes(call), true), x.dtype()))};
}
Results global_max_pool(Call& call) { return {call.like(0, reduce_max(call.tensor(0), spatial_axes(call), true))}; }
Results global_lp_pool(Call& call) {
  const Tensor x = wide(call.tensor(0));
  const Axes axes = spatial_axes(call);
  const Tensor y = norm(x, power_of(call), [&](const Tensor& terms) { return reduce_sum(terms, axes, true); });
  return {call.like(0, cast(y, call.tensor(0).dtype()))};
}

// Values back at the places that MaxPool gave, in an output that is zero elsewhere.
Results max_unpool(Call& call) {
  const Tensor &x = call.tensor(0), &places = call.tensor(1);
  const Shape& shape = x.shape();
  call.require(shape.size() >= 3 && places.shape() == shape, "expected [N, C, spatial...] and places for all of it");
  const size_t spatial = shape.size() - 2;
  const Axes window = call.integers("kernel_shape"), strides = call.integers("strides", Axes(spatial, 1)),
             pads = call.integers("pads", Axes(2 * spatial, 0));
  call.require(window.size() == spatial && strides.size() == spatial && pads.size() == 2 * spatial,
               "kernel_shape, strides and pads must have a number for each spatial axis");
  Shape own{shape[0], shape[1]};
  for (size_t i = 0; i < spatial; ++i)
    own.push_back((shape[i + 2] - 1) * strides[i] + window[i] - pads[i] - pads[i + spatial]);
  const Shape output = call.has(2) ? call.integers(2) : own;
  call.require(output.size() == shape.size(), "the shape does not fit its input");
  for (const Shape* one : {&std::as_const(own), &output})
    for (const int64_t extent : *one) call.require(extent >= 0 && extent < int64_t{1} << 30, "the shape is impossible");
  // Places count in the smallest image that the windows cover; a larger output has it at its beginning.
  const int64_t count = places.size();
  const Tensor flat =
      scatter(zeros({elements(own)}, x.dtype()), reshape(cast(places, DType::kInt64), {count}), reshape(x, {count}));
  Axes none(own.size(), 0), behind(own.size(), 0);
  for (size_t i = 0; i < own.size(); ++i) {
    call.require(output[i] >= own[i], "the shape is smaller than the windows cover");
    behind[i] = output[i] - own[i];
  }
  return {call.like(0, pad(reshape(flat, own), none, behind))};
}

}  // namespace

const RegisterOperators kPooling = {{"MaxPool", max_pool_operator},
                                    {"AveragePool", average_pool_operator},
                                    {"LpPool", lp_pool},
                                    {"GlobalAveragePool", global_average_pool},
                                    {"GlobalMaxPool", global_max_pool},
                                    {"GlobalLpPool", global_lp_pool},
                                    {"MaxUnpool", max_unpool, 9}};

}  // namespace transom::onnx
