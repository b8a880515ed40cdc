// SPDX-License-Identifier: Apache-2.0
// Reductions over axes, and running sums.
#include <cmath>
#include <limits>
#include <utility>

#include "graph/ops/all_axes.h"
#include "graph/ops/function_records.h"
#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

std::vector<Type> infer_reduction(const Inference& in) {
  expect_inputs(in, 1);
  check(in, in.dtype(0) != DType::kBool, "expected numbers, found bool");
  const Axes& axes = in.attributes.get_ints("axes");
  expect_rank_axes(in, axes, in.rank(0));
  return {{in.dtype(0), without_axes(in.shape(0), axes)}};
}

// Calls visit(input place, output place) for every element of the input.
template <typename Visit>
void for_each_reduced(const Shape& shape, const Axes& axes, Visit&& visit) {
  Axes strides(shape.size(), 0);
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;)
    if (!holds(axes, static_cast<int64_t>(i))) strides[i] = stride, stride *= shape[i];
  int64_t place = 0;
  for_each_index(shape, [&](const Axes& index) { visit(place++, offset_of(index, strides)); });
}

void fill(Array& array, double real, int64_t integer) {
  std::fill(array.real.begin(), array.real.end(), real);
  std::fill(array.integer.begin(), array.integer.end(), integer);
}

// With compensation (Neumaier, 1974), since many equal terms would otherwise gather one error in one direction.
void evaluate_sum(std::span<const Array> in, const Attributes& attributes, std::span<Array> out) {
  fill(out[0], 0, 0);
  std::vector<double> lost(out[0].real.size(), 0);
  for_each_reduced(in[0].type.shape, attributes.get_ints("axes"), [&](int64_t from, int64_t to) {
    const auto i = static_cast<size_t>(from), o = static_cast<size_t>(to);
    if (!out[0].floating()) {
      out[0].integer[o] = wrapping_add(out[0].integer[o], in[0].integer[i]);
      return;
    }
    const double term = in[0].real[i], before = std::exchange(out[0].real[o], out[0].real[o] + term);
    const double sum = out[0].real[o];
    if (std::isfinite(sum)) lost[o] += std::fabs(before) >= std::fabs(term) ? before - sum + term : term - sum + before;
  });
  for (size_t o = 0; o < lost.size(); ++o)
    if (lost[o] != 0) out[0].real[o] += lost[o];  // a sum of -0 stays what it is
}

int64_t lowest_of(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return std::numeric_limits<int8_t>::min();
    case DType::kInt32:
      return std::numeric_limits<int32_t>::min();
    case DType::kInt64:
      return std::numeric_limits<int64_t>::min();
    default:
      return 0;
  }
}
int64_t highest_of(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return std::numeric_limits<int8_t>::max();
    case DType::kUInt8:
      return std::numeric_limits<uint8_t>::max();
    case DType::kInt32:
      return std::numeric_limits<int32_t>::max();
    case DType::kUInt32:
      return std::numeric_limits<uint32_t>::max();
    default:
      return std::numeric_limits<int64_t>::max();
  }
}

template <int direction>  // +1: the largest, -1: the smallest
void evaluate_extreme(std::span<const Array> in, const Attributes& attributes, std::span<Array> out) {
  fill(out[0], -direction * std::numeric_limits<double>::infinity(),
       direction > 0 ? lowest_of(out[0].type.dtype) : highest_of(out[0].type.dtype));
  for_each_reduced(in[0].type.shape, attributes.get_ints("axes"), [&](int64_t from, int64_t to) {
    const auto i = static_cast<size_t>(from), o = static_cast<size_t>(to);
    if (out[0].floating()) {
      const double x = in[0].real[i];
      double& best = out[0].real[o];
      if (std::isnan(x) || direction * x > direction * best) best = x;
    } else {
      const int64_t x = in[0].integer[i];
      int64_t& best = out[0].integer[o];
      if (direction > 0 ? x > best : x < best) best = x;
    }
  });
}

// Puts the dropped axes back with extent 1, and repeats.
Tensor spread(const Tensor& reduced, const Shape& shape, const Axes& axes) {
  Shape kept = shape;
  for (const int64_t axis : axes) kept[static_cast<size_t>(axis)] = 1;
  return broadcast_to(reshape(reduced, kept), shape);
}

std::vector<Tensor> sum_gradient(const GradientRequest& request) {
  return {spread(request.cotangents[0], request.inputs[0].shape(), request.attributes.get_ints("axes"))};
}

// Places that hold the extreme share the gradient equally, as PyTorch's amax does.
std::vector<Tensor> extreme_gradient(const GradientRequest& request) {
  const Tensor& x = request.inputs[0];
  const Axes& axes = request.attributes.get_ints("axes");
  const Tensor chosen = cast(equal(x, spread(request.outputs[0], x.shape(), axes)), x.dtype());
  return {chosen * spread(request.cotangents[0] / reduce_sum(chosen, axes), x.shape(), axes)};
}

std::vector<Sample> reduction_samples() {
  std::vector<Sample> samples;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64, DType::kInt64}) {
    for (const Axes& axes : {Axes{0}, Axes{1}, Axes{0, 1}, Axes{}})
      samples.push_back({{{dtype, {7, 19}}}, {{"axes", axes}}, -2, 2, 50});
    samples.push_back({{{dtype, {3, 5, 4}}}, {{"axes", Axes{0, 2}}}, -2, 2, 50});
    samples.push_back({{{dtype, {3, 1, 4}}}, {{"axes", Axes{1}}}, -2, 2, 50});
    samples.push_back({{{dtype, {2, 0}}}, {{"axes", Axes{1}}}});
  }
  return samples;
}

const Operation kReduceSum = {.name = "reduce_sum",
                              .documentation = "Sum over `axes`, which are dropped.",
                              .row_wise = RowWise::kReduction,
                              .category = Category::kRows,
                              .flops = flops_of_reduction,
                              .error = kSumError,
                              .infer = infer_reduction,
                              .evaluate = evaluate_sum,
                              .gradient = sum_gradient,
                              .samples = reduction_samples};
const Operation kReduceMax = {.name = "reduce_max",
                              .documentation = "Largest over `axes`, which are dropped; NaN if one is.",
                              .row_wise = RowWise::kReduction,
                              .category = Category::kRows,
                              .flops = flops_of_reduction,
                              .infer = infer_reduction,
                              .evaluate = evaluate_extreme<1>,
                              .gradient = extreme_gradient,
                              .samples = reduction_samples};
const Operation kReduceMin = {.name = "reduce_min",
                              .documentation = "Smallest over `axes`, which are dropped; NaN if one is.",
                              .row_wise = RowWise::kReduction,
                              .category = Category::kRows,
                              .flops = flops_of_reduction,
                              .infer = infer_reduction,
                              .evaluate = evaluate_extreme<-1>,
                              .gradient = extreme_gradient,
                              .samples = reduction_samples};

// ---- arg_max, arg_min

std::vector<Type> infer_arg(const Inference& in) {
  expect_inputs(in, 1);
  const int64_t axis = in.attributes.get_int("axis");
  expect_axis(in, axis, in.rank(0));
  check(in, in.shape(0)[static_cast<size_t>(axis)] > 0, "axis {} of {} is empty", axis, in.shape(0));
  return {{DType::kInt64, without_axes(in.shape(0), {axis})}};
}

template <int direction>
void evaluate_arg(std::span<const Array> in, const Attributes& attributes, std::span<Array> out) {
  const int64_t axis = attributes.get_int("axis");
  const Axes strides = strides_of(in[0].type.shape);
  // The first NaN counts as the extreme.
  const auto better = [&](size_t x, size_t best) {
    if (!in[0].floating())
      return direction > 0 ? in[0].integer[x] > in[0].integer[best] : in[0].integer[x] < in[0].integer[best];
    if (std::isnan(in[0].real[best])) return false;
    return std::isnan(in[0].real[x]) || direction * in[0].real[x] > direction * in[0].real[best];
  };
  std::vector<size_t> best(out[0].integer.size());
  for_each_reduced(in[0].type.shape, {axis}, [&](int64_t from, int64_t to) {
    const auto i = static_cast<size_t>(from), o = static_cast<size_t>(to);
    const int64_t place = from / strides[static_cast<size_t>(axis)] % in[0].type.shape[static_cast<size_t>(axis)];
    if (place > 0 && !better(i, best[o])) return;
    best[o] = i;
    out[0].integer[o] = place;
  });
}

std::vector<Sample> arg_samples() {
  std::vector<Sample> samples;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt64})
    for (const int64_t axis : {0, 1, 2}) samples.push_back({{{dtype, {3, 11, 4}}}, {{"axis", axis}}, -2, 2, 6});
  return samples;
}

const Operation kArgMax = {.name = "arg_max",
                           .documentation = "The first place of the largest along `axis`, which is dropped.",
                           .category = Category::kRows,
                           .infer = infer_arg,
                           .evaluate = evaluate_arg<1>,
                           .samples = arg_samples};
const Operation kArgMin = {.name = "arg_min",
                           .documentation = "The first place of the smallest along `axis`, which is dropped.",
                           .category = Category::kRows,
                           .infer = infer_arg,
                           .evaluate = evaluate_arg<-1>,
                           .samples = arg_samples};

const Operation kCumulativeSum = {
    .name = "cumulative_sum",
    .documentation = "Running sum along `axis`, each element included.",
    .category = Category::kRows,
    .flops = flops_of_reduction,
    .error = kSumError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 1);
      check(in, in.dtype(0) != DType::kBool, "expected numbers, found bool");
      expect_axis(in, in.attributes.get_int("axis"), in.rank(0));
      return {in.inputs[0]};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes& attributes, std::span<Array> out) {
          const auto axis = static_cast<size_t>(attributes.get_int("axis"));
          const int64_t stride = strides_of(in[0].type.shape)[axis];
          int64_t i = 0;
          for_each_index(in[0].type.shape, [&](const Axes& index) {
            const auto at = static_cast<size_t>(i), before = static_cast<size_t>(i - stride);
            if (out[0].floating()) out[0].real[at] = in[0].real[at] + (index[axis] ? out[0].real[before] : 0);
            else out[0].integer[at] = wrapping_add(in[0].integer[at], index[axis] ? out[0].integer[before] : 0);
            ++i;
          });
        },
    .gradient = [](const GradientRequest& request) -> std::vector<Tensor> {
      const int64_t axis = request.attributes.get_int("axis");
      return {reverse(cumulative_sum(reverse(request.cotangents[0], {axis}), axis), {axis})};
    },
    .samples = arg_samples};

Tensor reduce(const Operation& operation, const Tensor& x, const Axes& axes, bool keep) {
  const Axes which = normal_axes(axes, x.rank(), operation.name);
  const Tensor result = which.empty() ? x : make_tensor(operation, {x}, {{"axes", which}});
  if (!keep) return result;
  Shape shape = x.shape();
  for (const int64_t axis : which) shape[static_cast<size_t>(axis)] = 1;
  return reshape(result, shape);
}

}  // namespace

const RegisterOperations kRegisteredReduction{&kReduceSum, &kReduceMax, &kReduceMin,
                                              &kArgMax,    &kArgMin,    &kCumulativeSum};

namespace op {
const Operation &reduce_sum = kReduceSum, &reduce_max = kReduceMax;
}  // namespace op

Tensor reduce_sum(const Tensor& x, const Axes& axes, bool keep) { return reduce(kReduceSum, x, axes, keep); }
Tensor reduce_max(const Tensor& x, const Axes& axes, bool keep) { return reduce(kReduceMax, x, axes, keep); }
Tensor reduce_min(const Tensor& x, const Axes& axes, bool keep) { return reduce(kReduceMin, x, axes, keep); }

Tensor mean(const Tensor& x, const Axes& axes, bool keep) {
  int64_t count = 1;
  for (const int64_t axis : normal_axes(axes, x.rank(), "mean")) count *= x.dim(axis);
  return reduce_sum(x, axes, keep) * (1.0 / static_cast<double>(count));
}

Tensor sum(const Tensor& x) { return reduce_sum(x, all_axes(x)); }
Tensor mean(const Tensor& x) { return mean(x, all_axes(x)); }

Tensor arg_max(const Tensor& x, int64_t axis) {
  return make_tensor(kArgMax, {x}, {{"axis", normal_axis(axis, x.rank(), "arg_max")}});
}
Tensor arg_min(const Tensor& x, int64_t axis) {
  return make_tensor(kArgMin, {x}, {{"axis", normal_axis(axis, x.rank(), "arg_min")}});
}
Tensor cumulative_sum(const Tensor& x, int64_t axis) {
  return make_tensor(kCumulativeSum, {x}, {{"axis", normal_axis(axis, x.rank(), "cumulative_sum")}});
}

}  // namespace transom
