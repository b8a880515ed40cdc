// SPDX-License-Identifier: Apache-2.0
// Reductions, places of extremes, running sums.
#include <algorithm>
#include <limits>
#include <numeric>

#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/operators.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

using Axes = std::vector<int64_t>;

struct Reduction {
  Axes axes;
  bool keep;
  bool nothing = false;  // the input is given back
};

// The axes are an attribute, and an input from `since` on.
Reduction reduction_of(const Call& call, int64_t since) {
  Reduction reduction{{}, call.integer("keepdims", 1) != 0};
  const int64_t rank = call.tensor(0).rank();
  if (call.version() < since) reduction.axes = call.integers("axes");
  else if (call.has(1)) reduction.axes = call.integers(1);
  reduction.axes = call.axes(reduction.axes, rank);
  if (reduction.axes.empty()) {
    if (call.version() >= since && call.integer("noop_with_empty_axes", 0) != 0) {
      reduction.nothing = true;
      return reduction;
    }
    reduction.axes.resize(static_cast<size_t>(rank));
    std::iota(reduction.axes.begin(), reduction.axes.end(), int64_t{0});
  }
  std::sort(reduction.axes.begin(), reduction.axes.end());
  return reduction;
}

int64_t count_of(const Tensor& x, const Axes& axes) {
  int64_t count = 1;
  for (const int64_t axis : axes) count *= x.dim(axis);
  return count;
}

using Reduce = Tensor (*)(const Tensor&, const Axes&, bool);

Tensor sum_of(const Tensor& x, const Axes& axes, bool keep) { return reduce_sum(x, axes, keep); }
Tensor mean_of(const Tensor& x, const Axes& axes, bool keep) {
  const Tensor total = reduce_sum(x, axes, keep);
  const auto count = static_cast<double>(count_of(x, axes));
  if (is_integer(x.dtype())) return div(total, constant(count, x.dtype()));
  return div(total, constant(count, x.dtype()));
}
Tensor norm_1(const Tensor& x, const Axes& axes, bool keep) { return reduce_sum(abs(x), axes, keep); }
Tensor sum_of_squares(const Tensor& x, const Axes& axes, bool keep) { return reduce_sum(mul(x, x), axes, keep); }
Tensor norm_2(const Tensor& x, const Axes& axes, bool keep) {
  const Tensor squares = sum_of_squares(x, axes, keep);
  if (is_floating(x.dtype())) return sqrt(squares);
  return cast(sqrt(cast(squares, DType::kFloat64)), x.dtype());
}
Tensor log_of(const Tensor& x) {
  return is_floating(x.dtype()) ? log(x) : cast(log(cast(x, DType::kFloat64)), x.dtype());
}
Tensor log_sum(const Tensor& x, const Axes& axes, bool keep) { return log_of(reduce_sum(x, axes, keep)); }
Tensor log_sum_exp(const Tensor& given, const Axes& axes, bool keep) {
  const Tensor x = is_floating(given.dtype()) ? given : cast(given, DType::kFloat64);
  if (count_of(x, axes) == 0) return cast(log(reduce_sum(x, axes, keep)), given.dtype());
  // The largest value is taken out, where it is finite.
  const Tensor largest = reduce_max(x, axes, true);
  const Tensor shift = select(is_finite(largest), largest, constant(0, x.dtype()));
  const Tensor kept = add(log(reduce_sum(exp(sub(x, shift)), axes, true)), shift);
  Shape shape = given.shape();
  for (const int64_t axis : axes) shape[static_cast<size_t>(axis)] = keep ? 1 : -2;
  shape.erase(std::remove(shape.begin(), shape.end(), -2), shape.end());
  return cast(reshape(kept, shape), given.dtype());
}

// By halves, so that a product of n factors takes log n operations.
Tensor product_of(const Tensor& given, const Axes& axes, bool keep) {
  Tensor x = given;
  for (const int64_t axis : axes) {
    if (x.dim(axis) == 0) {
      Shape shape = x.shape();
      shape[static_cast<size_t>(axis)] = 1;
      x = broadcast_to(constant(1, x.dtype()), shape);
    }
    while (x.dim(axis) > 1) {
      const int64_t extent = x.dim(axis), half = extent / 2;
      const Tensor joined = mul(slice(x, axis, 0, half), slice(x, axis, half, 2 * half));
      x = extent % 2 ? concatenate({joined, slice(x, axis, extent - 1, extent)}, axis) : joined;
    }
  }
  if (keep) return x;
  Shape shape;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (!std::binary_search(axes.begin(), axes.end(), i)) shape.push_back(x.dim(i));
  return reshape(x, shape);
}

// Small integers are added in i64, floats of 16 bits in f32.
Tensor widened(const Tensor& x) {
  if (is_integer(x.dtype()) && x.dtype() != DType::kInt64) return cast(x, DType::kInt64);
  return wide(x);
}

template <Reduce reduce, int64_t since>
Results reduction(Call& call) {
  const Reduction how = reduction_of(call, since);
  // Only the reduction itself is left out: what goes before and after it stays.
  const Tensor& x = call.tensor(0);
  const Tensor result = reduce(widened(x), how.axes, how.keep || how.nothing);
  const ElementType type = call.type(0);
  if (is_narrower_than_carrier(type) && is_integer(type))
    return {cast_value({ElementType::kInt64, cast(result, DType::kInt64)}, type)};
  return {{type, cast(result, x.dtype())}};
}

// The greatest or least integer of a type, as its carrier holds it.
int64_t end_of_range(ElementType type, bool greatest) {
  if (type == ElementType::kBool) return greatest ? 1 : 0;
  const int bits = info(type).bits;
  if (is_unsigned(type)) return !greatest ? 0 : bits == 64 ? -1 : (int64_t{1} << bits) - 1;
  const int64_t least = std::numeric_limits<int64_t>::min() >> (64 - bits);
  return greatest ? -1 - least : least;
}

template <bool largest>
Results extreme(Call& call) {
  const Reduction how = reduction_of(call, 18);
  if (how.nothing) return {call.value(0)};
  const Tensor& x = call.tensor(0);
  const ElementType type = call.type(0);
  Shape kept = x.shape();
  for (const int64_t axis : how.axes) kept[static_cast<size_t>(axis)] = 1;
  Tensor result;
  if (count_of(x, how.axes) == 0) {  // of nothing: the end of the type's range
    const double infinity = std::numeric_limits<double>::infinity();
    if (is_floating(type)) result = broadcast_to(constant(largest ? -infinity : infinity, x.dtype()), kept);
    else result = broadcast_to(integer(end_of_range(type, !largest), x.dtype()), kept);
  } else if (type == ElementType::kBool || type == ElementType::kUInt8 || type == ElementType::kInt8) {
    const Tensor ints = cast(x, DType::kInt32);
    result = cast(largest ? reduce_max(ints, how.axes, true) : reduce_min(ints, how.axes, true), x.dtype());
  } else if (type == ElementType::kUInt64) {
    const Tensor top = integer(std::numeric_limits<int64_t>::min()), ordered = add(x, top);
    result = add(largest ? reduce_max(ordered, how.axes, true) : reduce_min(ordered, how.axes, true), top);
  } else {
    result = largest ? reduce_max(x, how.axes, true) : reduce_min(x, how.axes, true);
  }
  if (how.keep) return {{type, result}};
  Shape shape;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (!std::binary_search(how.axes.begin(), how.axes.end(), i)) shape.push_back(x.dim(i));
  return {{type, reshape(result, shape)}};
}

template <bool largest>
Results place_of_extreme(Call& call) {
  const Tensor& x = call.tensor(0);
  const int64_t axis = call.axis(call.integer("axis", 0), x.rank());
  const bool last = call.integer("select_last_index", 0) != 0;
  Tensor from = last ? reverse(x, {axis}) : x;
  if (call.type(0) == ElementType::kUInt64) from = add(from, integer(std::numeric_limits<int64_t>::min()));
  Tensor place = largest ? arg_max(from, axis) : arg_min(from, axis);
  if (last) place = sub(integer(x.dim(axis) - 1), place);
  if (call.integer("keepdims", 1) != 0) place = unsqueeze(place, axis);
  return {{ElementType::kInt64, place}};
}

enum class Running { kSum, kProduct };

// Products are joined over distances that double (Hillis and Steele, 1986).
Tensor running_product(const Tensor& given, int64_t axis) {
  Tensor x = given;
  const int64_t extent = x.dim(axis);
  for (int64_t distance = 1; distance < extent; distance *= 2) {
    const Tensor joined = mul(slice(x, axis, distance, extent), slice(x, axis, 0, extent - distance));
    x = concatenate({slice(x, axis, 0, distance), joined}, axis);
  }
  return x;
}

template <Running kind>
Results running(Call& call) {
  const Tensor& given = call.tensor(0);
  const int64_t axis = call.axis(call.integer_of(call.tensor(1)), given.rank());
  Tensor x = wide(given);
  const bool from_end = call.integer("reverse", 0) != 0;
  if (from_end) x = reverse(x, {axis});
  const int64_t extent = x.dim(axis);
  if (call.integer("exclusive", 0) != 0 && extent > 0) {
    Shape one = x.shape();
    one[static_cast<size_t>(axis)] = 1;
    const Tensor neutral = broadcast_to(constant(kind == Running::kSum ? 0 : 1, x.dtype()), one);
    x = concatenate({neutral, slice(x, axis, 0, extent - 1)}, axis);
  }
  x = kind == Running::kSum ? cumulative_sum(x, axis) : running_product(x, axis);
  if (from_end) x = reverse(x, {axis});
  return {call.like(0, cast(x, given.dtype()))};
}

}  // namespace

const RegisterOperators kReductions = {{"ReduceSum", reduction<sum_of, 13>},
                                       {"ReduceMean", reduction<mean_of, 18>},
                                       {"ReduceL1", reduction<norm_1, 18>},
                                       {"ReduceL2", reduction<norm_2, 18>},
                                       {"ReduceSumSquare", reduction<sum_of_squares, 18>},
                                       {"ReduceLogSum", reduction<log_sum, 18>},
                                       {"ReduceLogSumExp", reduction<log_sum_exp, 18>},
                                       {"ReduceProd", reduction<product_of, 18>},
                                       {"ReduceMax", extreme<true>},
                                       {"ReduceMin", extreme<false>},
                                       {"ArgMax", place_of_extreme<true>},
                                       {"ArgMin", place_of_extreme<false>},
                                       {"CumSum", running<Running::kSum>, 11},
                                       {"CumProd", running<Running::kProduct>, 26}};

}  // namespace transom::onnx
