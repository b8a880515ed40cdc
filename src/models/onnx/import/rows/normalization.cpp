// SPDX-License-Identifier: Apache-2.0
// Normalisation, and softmax with its relatives.
#include <algorithm>
#include <numeric>

#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/operators.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

using Axes = std::vector<int64_t>;

// [C] as [C, 1, ...] to stand beside [N, C, spatial...].
Tensor a_channel(const Tensor& x, const Tensor& values) {
  Shape shape(static_cast<size_t>(std::max<int64_t>(x.rank(), 2)) - 1, 1);
  shape[0] = values.size();
  return reshape(values, shape);
}

Axes axes_from(const Tensor& x, int64_t first) {
  Axes axes(static_cast<size_t>(std::max<int64_t>(x.rank() - first, 0)));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

Tensor normalised(const Tensor& x, const Axes& axes, double epsilon) {
  const Tensor centred = sub(x, mean(x, axes, true));
  return mul(centred, rsqrt(mean(mul(centred, centred), axes, true) + epsilon));
}

Results batch_normalization(Call& call) {
  const Tensor& given = call.tensor(0);
  const double epsilon = call.number("epsilon", 1e-5f), momentum = call.number("momentum", 0.9f);
  const Tensor x = wide(given);
  const auto channels = [&](size_t input) { return cast(a_channel(x, call.tensor(input)), x.dtype()); };
  const bool training = call.version() >= 14 ? call.integer("training_mode", 0) != 0
                                             : call.version() < 7 && call.integer("is_test", 0) == 0;
  if (call.version() < 9 && call.integer("spatial", 1) == 0) call.not_supported("spatial = 0");
  if (training && call.version() < 14) call.not_supported("training");
  Tensor average = channels(3), variance = channels(4);
  Results results(1);
  if (training) {
    Axes axes = axes_from(x, 2);
    axes.insert(axes.begin(), 0);
    const Tensor batch_mean = mean(x, axes, true);
    const Tensor centred = sub(x, batch_mean);
    const Tensor batch_variance = mean(mul(centred, centred), axes, true);
    const auto running = [&](size_t input, const Tensor& now) {
      const Tensor before = call.tensor(input);
      return Value(
          call.type(input),
          cast(add(momentum * cast(before, x.dtype()), (1 - momentum) * reshape(now, before.shape())), before.dtype()));
    };
    results.push_back(running(3, batch_mean));
    results.push_back(running(4, batch_variance));
    average = reshape(batch_mean, a_channel(x, call.tensor(3)).shape());
    variance = reshape(batch_variance, average.shape());
  }
  const Tensor scale = mul(channels(1), rsqrt(variance + epsilon));
  results[0] = call.like(0, cast(add(mul(sub(x, average), scale), channels(2)), given.dtype()));
  return results;
}

Results instance_normalization(Call& call) {
  const Tensor x = wide(call.tensor(0));
  const Tensor y = normalised(x, axes_from(x, 2), call.number("epsilon", 1e-5f));
  const auto channels = [&](size_t input) { return cast(a_channel(x, call.tensor(input)), x.dtype()); };
  return {call.like(0, cast(add(mul(y, channels(1)), channels(2)), call.tensor(0).dtype()))};
}

Results group_normalization(Call& call) {
  const Tensor& given = call.tensor(0);
  const Tensor x = wide(given);
  const int64_t groups = call.integer("num_groups");
  call.require(x.rank() >= 2 && groups > 0 && x.dim(1) % groups == 0, "the groups do not fit its input");
  const Tensor y = reshape(
      normalised(reshape(x, {x.dim(0), groups, groups == 0 || x.dim(0) == 0 ? 0 : x.size() / x.dim(0) / groups}), {2},
                 call.number("epsilon", 1e-5f)),
      x.shape());
  // A number a group until opset 20, a number a channel from 21 on.
  const auto channels = [&](size_t input) {
    Tensor values = wide(call.tensor(input));
    const int64_t each = x.dim(1) / groups;
    if (values.size() == groups && call.version() < 21)
      values = reshape(broadcast_to(unsqueeze(values, 1), {groups, each}), {x.dim(1)});
    return cast(a_channel(x, values), x.dtype());
  };
  return {call.like(0, cast(add(mul(y, channels(1)), channels(2)), given.dtype()))};
}

Results layer_normalization(Call& call) {
  const Tensor& given = call.tensor(0);
  const int64_t axis = call.axis(call.integer("axis", -1), given.rank());
  const double epsilon = call.number("epsilon", 1e-5f);
  const bool last = axis == given.rank() - 1;
  if (last && !call.wants(1) && !call.wants(2) && call.has(2) && call.shape(1) == Shape{given.dim(-1)} &&
      call.shape(2) == call.shape(1) && call.tensor(1).dtype() == given.dtype())
    return {call.like(0, layer_norm(given, call.tensor(1), call.tensor(2), epsilon, call.computing()))};
  const Tensor x = wide(given);
  const Axes axes = axes_from(x, axis);
  const Tensor average = mean(x, axes, true);
  const Tensor centred = sub(x, average);
  const Tensor inverse = rsqrt(mean(mul(centred, centred), axes, true) + epsilon);
  Tensor y = mul(cast(mul(centred, inverse), given.dtype()), call.tensor(1));
  if (call.has(2)) y = add(y, call.tensor(2));
  return {call.like(0, y), value_of(average), value_of(inverse)};
}

Results rms_normalization(Call& call) {
  const Tensor& given = call.tensor(0);
  const int64_t axis = call.axis(call.integer("axis", -1), given.rank());
  const double epsilon = call.number("epsilon", 1e-5f);
  if (axis == given.rank() - 1 && call.shape(1) == Shape{given.dim(-1)} && call.tensor(1).dtype() == given.dtype())
    return {call.like(0, rms_norm(given, call.tensor(1), epsilon, call.computing()))};
  const Tensor x = wide(given);
  const Tensor inverse = rsqrt(mean(mul(x, x), axes_from(x, axis), true) + epsilon);
  return {call.like(1, mul(cast(mul(x, inverse), call.tensor(1).dtype()), call.tensor(1)))};
}

Results lp_normalization(Call& call) {
  const Tensor x = wide(call.tensor(0));
  const int64_t axis = call.axis(call.integer("axis", -1), x.rank()), p = call.integer("p", 2);
  call.require(p == 1 || p == 2, "p must be 1 or 2");
  const Tensor norm = p == 1 ? reduce_sum(abs(x), {axis}, true) : sqrt(reduce_sum(mul(x, x), {axis}, true));
  const Tensor zero = constant(0, x.dtype());
  const Tensor y = select(equal(norm, zero), zero, div(x, select(equal(norm, zero), constant(1, x.dtype()), norm)));
  return {call.like(0, cast(y, call.tensor(0).dtype()))};
}

Results mean_variance_normalization(Call& call) {
  const Tensor x = wide(call.tensor(0));
  const Axes axes = call.axes(call.integers("axes", {0, 2, 3}), x.rank());
  const Tensor centred = sub(x, mean(x, axes, true));
  const Tensor deviation = sqrt(mean(mul(centred, centred), axes, true));
  return {call.like(0, cast(div(centred, deviation + 1e-9), call.tensor(0).dtype()))};
}

// Krizhevsky et al., 2012: squares of neighbouring channels.
Results local_response_normalization(Call& call) {
  const Tensor x = wide(call.tensor(0));
  const int64_t size = call.integer("size");
  call.require(x.rank() >= 2 && size >= 1 && size <= 4096, "the size is impossible");
  const double alpha = call.number("alpha", 1e-4f), beta = call.number("beta", 0.75), bias = call.number("bias", 1);
  Axes low(static_cast<size_t>(x.rank()), 0), high = low;
  low[1] = (size - 1) / 2, high[1] = size - 1 - low[1];
  const Tensor squares = pad(mul(x, x), low, high);
  Tensor total;
  for (int64_t i = 0; i < size; ++i) {
    const Tensor part = slice(squares, 1, i, i + x.dim(1));
    total = total.defined() ? add(total, part) : part;
  }
  const Tensor base = total * (alpha / static_cast<double>(size)) + bias;
  return {call.like(0, cast(div(x, pow(base, constant(beta, x.dtype()))), call.tensor(0).dtype()))};
}

// ---- softmax

// Along one axis, or before opset 13 over all axes from it on.
template <typename Function>
Tensor along_axis(const Call& call, Function&& function) {
  const Tensor& x = call.tensor(0);
  if (x.rank() == 0) return reshape(function(reshape(x, {1})), {});
  if (call.version() < 13) {
    const int64_t axis = call.axis(call.integer("axis", 1), x.rank());
    const int64_t rows = elements(Shape(x.shape().begin(), x.shape().begin() + axis));
    const int64_t columns = elements(Shape(x.shape().begin() + axis, x.shape().end()));
    return reshape(function(reshape(x, {rows, columns})), x.shape());
  }
  const int64_t axis = call.axis(call.integer("axis", -1), x.rank());
  return transpose(function(transpose(x, axis, -1)), axis, -1);
}

Results softmax_operator(Call& call) {
  return {call.like(0, along_axis(call, [&](const Tensor& x) { return softmax(x, call.computing()); }))};
}
Results log_softmax_operator(Call& call) {
  return {call.like(0, along_axis(call, [&](const Tensor& x) { return log_softmax(x, call.computing()); }))};
}
Results hardmax(Call& call) {
  if (call.tensor(0).size() == 0) return {call.value(0)};
  return {call.like(0, along_axis(call, [](const Tensor& x) {
                      const Tensor place = unsqueeze(arg_max(x, -1), x.rank() - 1);
                      return cast(equal(iota(x.shape(), x.rank() - 1), place), x.dtype());
                    }))};
}

}  // namespace

const RegisterOperators kNormalization = {{"BatchNormalization", batch_normalization},
                                          {"InstanceNormalization", instance_normalization, 6},
                                          {"GroupNormalization", group_normalization, 18},
                                          {"LayerNormalization", layer_normalization},
                                          {"RMSNormalization", rms_normalization},
                                          {"SimplifiedLayerNormalization", rms_normalization},
                                          {"LpNormalization", lp_normalization},
                                          {"MeanVarianceNormalization", mean_variance_normalization, 9},
                                          {"LRN", local_response_normalization},
                                          {"Softmax", softmax_operator},
                                          {"LogSoftmax", log_softmax_operator},
                                          {"Hardmax", hardmax}};

}  // namespace transom::onnx
