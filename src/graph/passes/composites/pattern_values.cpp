// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/composites/pattern_values.h"

#include <cmath>

namespace transom {

std::optional<double> LeafNumbers::operator()(Tensor x) const {
  while (is_floating(x.dtype()) && (is_op(x, op::broadcast) || is_op(x, op::reshape) || is_op(x, op::cast)))
    x = Tensor(input_of(x));
  if (!is_floating(x.dtype())) return std::nullopt;
  if (is_op(x, op::constant)) return x.node()->attributes.get_float("value");
  return is_input(*x.node()) && of_leaf_ ? of_leaf_(x) : std::nullopt;
}

bool LeafNumbers::is(const Tensor& x, double value) const {
  const std::optional<double> found = (*this)(x);
  return found && std::abs(*found - value) <= 1e-6 * std::abs(value);
}

namespace {

// Whether factors may be joined: they and their product are far from where f32 ends, in the order of the graph too.
bool is_moderate(double factor) { return std::abs(factor) > 1e-18 && std::abs(factor) < 1e18; }

}  // namespace

Scaled LeafNumbers::scaled(const Tensor& x) const {
  Scaled result{x};
  for (;;) {
    const Tensor value = result.value;
    if (is_op(value, op::mul)) {
      const std::optional<double> right = (*this)(input_of(value, 1));
      const std::optional<double> number = right ? right : (*this)(input_of(value, 0));
      if (!number || !is_moderate(*number) || !is_moderate(result.factor * *number)) return result;
      result = {input_of(value, right ? 0 : 1), result.factor * *number};
    } else if (is_op(value, op::div)) {
      const std::optional<double> below = (*this)(input_of(value, 1));
      if (!below || !is_moderate(*below) || !is_moderate(result.factor / *below)) return result;
      result = {input_of(value, 0), result.factor / *below};
    } else {
      return result;
    }
  }
}

Tensor permuted(const Tensor& x, Axes permutation) {
  Tensor source = x;
  if (is_op(x, op::permute)) {
    const Axes& inner = x.node()->attributes.get_ints("permutation");
    for (int64_t& axis : permutation) axis = inner[static_cast<size_t>(axis)];
    source = input_of(x);
  }
  bool same = true;
  for (size_t i = 0; i < permutation.size(); ++i) same = same && permutation[i] == static_cast<int64_t>(i);
  return same ? source : emit(op::permute, {source}, {{"permutation", permutation}});
}

}  // namespace transom
