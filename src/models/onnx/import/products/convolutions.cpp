// SPDX-License-Identifier: Apache-2.0
// Convolutions and what is made of them.
#include "models/onnx/import/products/convolutions.h"

#include <algorithm>

#include "graph/ir/node.h"
#include "graph/ops/computing.h"
#include "graph/ops/records.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

using Axes = std::vector<int64_t>;

Shape spatial_of(const Shape& shape) { return Shape(shape.begin() + 2, shape.end()); }

Tensor with_bias(const Call& call, const Tensor& y, size_t input) {
  if (!call.has(input)) return y;
  Shape shape(static_cast<size_t>(y.rank()) - 1, 1);
  shape[0] = call.tensor(input).size();
  return add(y, reshape(call.tensor(input), shape));
}

int64_t groups_of(const Call& call) {
  const int64_t groups = call.integer("group", 1);
  call.require(groups >= 1, "group must be at least 1");
  return groups;
}

void check_weight(const Call& call, const Tensor& x, const Tensor& w) {
  call.require(x.rank() >= 3 && w.rank() == x.rank(), "expected x [N, C, spatial...] and a weight of the same rank");
  if (x.rank() > 5) call.not_supported("more than three spatial axes");
}

Results conv(Call& call) {
  const Tensor &x = call.tensor(0), &w = call.tensor(1);
  check_weight(call, x, w);
  const Windows windows = Windows::of(call, x.shape(), call.integers("kernel_shape", spatial_of(w.shape())));
  call.require(windows.window == spatial_of(w.shape()), "kernel_shape is not that of the weight");
  return {call.like(0, with_bias(call, convolve(call, x, w, windows, groups_of(call)), 2))};
}

// x with `gap - 1` zeros between its elements along the spatial axes.
Tensor spread(Tensor x, const Axes& gaps) {
  for (size_t i = 0; i < gaps.size(); ++i) {
    if (gaps[i] == 1) continue;
    const auto axis = static_cast<int64_t>(i) + 2;
    const int64_t extent = x.dim(axis);
    if (extent == 0) continue;
    Axes low(static_cast<size_t>(x.rank()) + 1, 0), high = low;
    high[i + 3] = gaps[i] - 1;
    Shape joined = x.shape();
    joined[i + 2] = extent * gaps[i];
    x = slice(reshape(pad(unsqueeze(x, axis + 1), low, high), joined), axis, 0, (extent - 1) * gaps[i] + 1);
  }
  return x;
}

// The windows of all places of x added up, before anything is cut off: the gradient of a convolution for its input. (A
// convolution of x with zeros between its elements would multiply those too, and zeros times infinity are NaN.)
Tensor all_windows(const Call& call, const Tensor& x, const Tensor& w, const Windows& windows, int64_t groups) {
  const size_t spatial = windows.window.size();
  Shape shape{x.dim(0), w.dim(1) * groups};
  for (size_t i = 0; i < spatial; ++i) {
    call.require(x.shape()[i + 2] >= 1, "an axis of the input is empty");
    shape.push_back((x.shape()[i + 2] - 1) * windows.strides[i] + windows.covered(i));
  }
  Attributes attributes{{"strides", windows.strides},     {"low", Axes(spatial, 0)}, {"high", Axes(spatial, 0)},
                        {"dilations", windows.dilations}, {"groups", groups},        {"shape", shape}};
  allow_tf32(attributes, x.dtype(), call.computing());
  return make_tensor(op::convolution_input_gradient,
                     {autocast_low(x, call.computing()), autocast_low(w, call.computing())}, std::move(attributes));
}

// w [C, O / groups, window...]
Results conv_transpose(Call& call) {
  const Tensor &x = call.tensor(0), &w = call.tensor(1);
  check_weight(call, x, w);
  const int64_t groups = groups_of(call);
  call.require(w.dim(0) == x.dim(1) && x.dim(1) % groups == 0, "the weight does not fit its input");
  const size_t spatial = x.shape().size() - 2;
  const Windows windows = Windows::of(call, x.shape(), call.integers("kernel_shape", spatial_of(w.shape())));
  call.require(windows.window == spatial_of(w.shape()), "kernel_shape is not that of the weight");
  const Axes extra = call.integers("output_padding", Axes(spatial, 0));
  const Axes wanted = call.integers("output_shape");
  const std::string automatic = call.text("auto_pad", "NOTSET");
  call.require(extra.size() == spatial, "output_padding must have a number for each spatial axis");
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  // What is cut off the whole result before and behind.
  Axes before = windows.low, behind = windows.high;
  for (size_t i = 0; i < spatial; ++i) {
    call.require(extra[i] >= 0 && extra[i] < int64_t{1} << 30, "output_padding is impossible");
    if (!same && wanted.empty()) continue;
    int64_t output = x.shape()[i + 2] * windows.strides[i];
    if (!wanted.empty()) {
      call.require(wanted.size() == spatial || wanted.size() == spatial + 2, "output_shape does not fit its input");
      output = wanted[wanted.size() - spatial + i];
    }
    const int64_t whole = (x.shape()[i + 2] - 1) * windows.strides[i] + extra[i] + windows.covered(i);
    const int64_t cut = whole - output;  // of a window below the stride it is negative: zeros are added
    const int64_t less = cut >= 0 ? cut / 2 : -((1 - cut) / 2);  // the half, rounded down
    before[i] = automatic == "SAME_UPPER" ? less : cut - less;
    if (!same && cut < 0) before[i] = 0;
    behind[i] = cut - before[i];
  }
  Tensor y = all_windows(call, x, w, windows, groups);
  Axes low(static_cast<size_t>(y.rank()), 0), high = low;
  for (size_t i = 0; i < spatial; ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    const int64_t grow = extra[i] - behind[i];  // beyond the last window: zeros
    const int64_t extent = y.dim(axis);
    if (grow > 0) high[i + 2] = grow;
    const int64_t end = grow > 0 ? extent : extent + grow;
    const int64_t start = std::max<int64_t>(before[i], 0);
    low[i + 2] = start - before[i];
    call.require(start <= end, "pads leave nothing of the result");
    y = slice(y, axis, start, end);
  }
  return {call.like(0, with_bias(call, pad(y, low, high), 2))};
}

// The sum of all columns [N, C * window, L] at the places that they were taken from.
Results col2im(Call& call) {
  const Tensor& x = call.tensor(0);
  const Axes image = call.integers(1), block = call.integers(2);
  const size_t spatial = image.size();
  call.require(x.rank() == 3 && spatial >= 1 && block.size() == spatial, "the shapes do not fit its input");
  const int64_t taps = elements(block);
  call.require(taps > 0 && x.dim(1) % taps == 0, "the columns do not fit the block");
  const int64_t N = x.dim(0), C = x.dim(1) / taps;
  Shape shape{N, C};
  shape.insert(shape.end(), image.begin(), image.end());
  const Windows windows = Windows::of(call, shape, block);
  Shape places;
  for (size_t i = 0; i < spatial; ++i) places.push_back(windows.extent(i, image[i]));
  call.require(elements(places) == x.dim(2), "the columns do not fit the image");
  // One tap of the window after the other, spread by the strides and added where it stands.
  Shape split{N, C, taps};
  split.insert(split.end(), places.begin(), places.end());
  const Tensor columns = reshape(x, split);
  if (taps > 4096) call.not_supported("blocks of more than 4096 places");
  Tensor total;
  for (int64_t tap = 0; tap < taps; ++tap) {
    Shape one{N, C};
    one.insert(one.end(), places.begin(), places.end());
    const Tensor values = spread(reshape(slice(columns, 2, tap, tap + 1), one), windows.strides);
    Axes low(spatial + 2, 0), high = low;
    int64_t rest = tap;
    for (size_t i = spatial; i-- > 0;) {
      low[i + 2] = rest % block[i] * windows.dilations[i];
      rest /= block[i];
      high[i + 2] = image[i] + windows.low[i] + windows.high[i] - low[i + 2] - values.shape()[i + 2];
    }
    const Tensor padded = pad(values, low, high);
    total = total.defined() ? add(total, padded) : padded;
  }
  for (size_t i = 0; i < spatial; ++i)
    total = slice(total, static_cast<int64_t>(i) + 2, windows.low[i], windows.low[i] + image[i]);
  return {call.like(0, total)};
}

// A depthwise convolution that looks back only: x [B, C, T], w [C, 1, k], state [B, C, k - 1].
Results causal_conv_with_state(Call& call) {
  const Tensor &x = call.tensor(0), &w = call.tensor(1);
  call.require(x.rank() == 3 && w.rank() == 3 && w.dim(0) == x.dim(1) && w.dim(1) == 1 && w.dim(2) >= 1,
               "expected x [B, C, T] and a weight [C, 1, k]");
  const int64_t B = x.dim(0), C = x.dim(1), k = w.dim(2);
  const Tensor before = call.has(3) ? cast(call.tensor(3), x.dtype()) : zeros({B, C, k - 1}, x.dtype());
  const Tensor all = concatenate({before, x}, 2);
  Windows windows;
  windows.window = {k};
  windows.strides = windows.dilations = {1};
  windows.low = windows.high = {0};
  Tensor y = wide(with_bias(call, convolve(call, wide(all), wide(w), windows, C), 2));
  const std::string activation = call.text("activation", "none");
  call.require(activation == "none" || activation == "silu" || activation == "swish", "the activation is unknown");
  if (activation != "none") y = silu(y);
  const int64_t length = all.dim(2);
  const ElementType state = call.has(3) ? call.type(3) : call.type(0);
  const Tensor last = slice(all, 2, length - (k - 1), length);
  return {call.like(0, cast(y, x.dtype())), {state, cast(last, *info(state).carrier)}};
}

}  // namespace

Tensor convolve(const Call& call, const Tensor& x, const Tensor& w, const Windows& windows, int64_t groups) {
  call.require(w.dim(0) % groups == 0 && x.dim(1) == w.dim(1) * groups, "the weight does not fit its input");
  for (size_t i = 0; i < windows.window.size(); ++i)
    call.require(windows.extent(i, x.shape()[i + 2]) > 0, "the window is larger than the padded input");
  return convolution(x, w,
                     {.strides = windows.strides,
                      .low = windows.low,
                      .high = windows.high,
                      .dilations = windows.dilations,
                      .groups = groups},
                     call.computing());
}

const RegisterOperators kConvolutions = {{"Conv", conv},
                                         {"ConvTranspose", conv_transpose},
                                         {"Col2Im", col2im, 18},
                                         {"CausalConvWithState", causal_conv_with_state, 27}};

}  // namespace transom::onnx
