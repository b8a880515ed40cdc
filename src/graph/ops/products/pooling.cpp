// SPDX-License-Identifier: Apache-2.0
// Pooling by windows over the spatial axes of [N, C, spatial...], or of [N, spatial..., C] where the layout pass has
// put the channels last: composites, axis by axis.
#include <algorithm>
#include <limits>

#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

struct Windows {
  Axes window, strides, low, high;  // one number a spatial axis
  size_t first;                     // spatial axis

  explicit Windows(const Attributes& attributes)
      : window(attributes.get_ints("window")),
        strides(attributes.get_ints("strides")),
        low(attributes.get_ints("low")),
        high(attributes.get_ints("high")),
        first(attributes.get_int("channels_last", 0) ? 1 : 2) {}

  int64_t extent(size_t i, int64_t x) const { return (x + low[i] + high[i] - window[i]) / strides[i] + 1; }

  Tensor padded(const Tensor& x, double value) const {
    Axes before(first, 0), behind(first, 0);
    before.insert(before.end(), low.begin(), low.end());
    behind.insert(behind.end(), high.begin(), high.end());
    before.resize(x.shape().size(), 0);
    behind.resize(x.shape().size(), 0);
    return pad(x, before, behind, value);
  }

  // Joins, for each axis from the last to the first, the taps of the windows, which are strided slices, in their order.
  template <typename Join>
  Tensor reduce(Tensor x, Join&& join) const {
    for (size_t i = window.size(); i-- > 0;) {
      const auto axis = static_cast<int64_t>(i + first);
      const int64_t last = (x.dim(axis) - window[i]) / strides[i] * strides[i];
      Tensor joined;
      for (int64_t tap = 0; tap < window[i]; ++tap) {
        const Tensor values = slice(x, axis, tap, tap + last + 1, strides[i]);
        joined = joined.defined() ? join(joined, values) : values;
      }
      x = joined;
    }
    return x;
  }
};

std::vector<Type> infer_pooling(const Inference& in) {
  expect_inputs(in, 1);
  expect_floating(in, 0);
  const Windows w(in.attributes);
  const size_t spatial = w.window.size();
  check(in, w.strides.size() == spatial && w.low.size() == spatial && w.high.size() == spatial,
        "expected one stride and padding for each axis of the window");
  check(in, in.shape(0).size() == spatial + 2, "expected x [N, C, spatial] with {} spatial axes, found {}", spatial,
        in.shape(0));
  const int64_t far = int64_t{1} << 30;
  for (const Axes& numbers : {w.window, w.strides}) expect_between(in, numbers, 1, far, "window or stride");
  for (size_t i = 0; i < spatial; ++i)
    for (const int64_t padding : {w.low[i], w.high[i]})
      expect_between(in, {padding}, 0, w.window[i] - 1, "padding (less than the window)");
  Shape shape = in.shape(0);
  for (size_t i = 0; i < spatial; ++i) {
    int64_t& extent = shape[i + w.first];
    check(in, extent + w.low[i] + w.high[i] >= w.window[i], "the window {} is larger than the padded input {}",
          w.window, in.shape(0));
    extent = w.extent(i, extent);
  }
  return {{in.dtype(0), shape}};
}

Attributes pooling_geometry(Axes window, Axes strides, Axes low, Axes high) {
  return {{"window", window}, {"strides", strides}, {"low", low}, {"high", high}};
}

Attributes with_channels_last(Attributes attributes) {
  attributes.set("channels_last", int64_t{1});
  return attributes;
}

std::vector<Sample> pooling_samples() {
  return {{{{DType::kFloat32, {2, 3, 7, 6}}}, pooling_geometry({3, 3}, {2, 2}, {1, 1}, {1, 1})},
          {{{DType::kFloat32, {1, 2, 5, 5}}}, pooling_geometry({2, 2}, {2, 2}, {0, 0}, {1, 1})},
          {{{DType::kBFloat16, {2, 1, 4, 9}}}, pooling_geometry({2, 3}, {1, 2}, {0, 1}, {1, 0})},
          {{{DType::kFloat32, {2, 2, 9}}}, pooling_geometry({4}, {3}, {2}, {0})},
          {{{DType::kFloat32, {2, 7, 6, 3}}}, with_channels_last(pooling_geometry({3, 3}, {2, 2}, {1, 1}, {1, 0}))},
          {{{DType::kBFloat16, {2, 9, 5}}}, with_channels_last(pooling_geometry({4}, {3}, {2}, {0}))}};
}

// Of equal values the first one of the window, in row-major order, takes the gradient, as in PyTorch.
const Operation kMaxPool = {
    .name = "max_pool",
    .kind = OperationKind::kComposite,
    .documentation = "The largest value of each window of x [N, C, spatial...].",
    .error = kExactError,
    .infer = infer_pooling,
    .decompose =
        [](std::span<const Tensor> in, const Attributes& attributes) {
          const Windows windows(attributes);
          return std::vector<Tensor>{windows.reduce(windows.padded(in[0], -std::numeric_limits<double>::infinity()),
                                                    [](const Tensor& x, const Tensor& y) {
                                                      return select(logical_or(greater(y, x), not_equal(y, y)), y, x);
                                                    })};
        },
    .samples = pooling_samples};

const Operation kSumPool = {
    .name = "sum_pool",
    .kind = OperationKind::kComposite,
    .documentation = "The sum of each window of x [N, C, spatial...], padded with zeros.",
    .error = ErrorBounds{{ErrorScale::kTerms, 0.5}, {ErrorScale::kTensor, 8}},
    .infer = infer_pooling,
    .decompose =
        [](std::span<const Tensor> in, const Attributes& attributes) {
          const Windows windows(attributes);
          return std::vector<Tensor>{
              windows.reduce(windows.padded(in[0], 0), [](const Tensor& x, const Tensor& y) { return x + y; })};
        },
    .samples = pooling_samples};

Tensor pool(const Operation& operation, const Tensor& x, const PoolingOptions& options) {
  const size_t spatial = options.window.size();
  return make_tensor(operation, {x},
                     pooling_geometry(options.window, options.strides.empty() ? options.window : options.strides,
                                      options.low.empty() ? Axes(spatial, 0) : options.low,
                                      options.high.empty() ? Axes(spatial, 0) : options.high));
}

}  // namespace

const RegisterOperations kRegisteredPooling{&kMaxPool, &kSumPool};

namespace op {
const Operation &max_pool = kMaxPool, &sum_pool = kSumPool;
}  // namespace op

Tensor max_pool(const Tensor& x, const PoolingOptions& options) { return pool(kMaxPool, x, options); }

Tensor average_pool(const Tensor& x, const PoolingOptions& options) {
  const Shape one_channel = [&] {
    Shape shape = x.shape();
    shape[0] = shape[1] = 1;
    return shape;
  }();
  return pool(kSumPool, x, options) / pool(kSumPool, full(one_channel, 1, x.dtype()), options);
}

}  // namespace transom
