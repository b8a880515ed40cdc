// SPDX-License-Identifier: Apache-2.0
// Norms and softmax over the last axis, of means, roots and quotients.
#include <cmath>

#include "graph/ops/function_records.h"
#include "graph/passes/composites/pattern_values.h"

namespace transom {
namespace {

// Without a last axis of one that is added, and without what repeats along the last axis. Along another axis a number
// of each row would stand for a column.
Tensor spread_from(Tensor x) {
  while (is_op(x, op::broadcast) || is_op(x, op::reshape)) {
    const Tensor from = input_of(x);
    Shape narrow = from.shape(), wide = x.shape();
    if (is_op(x, op::broadcast)) {
      if (narrow.empty() || narrow.size() != wide.size()) break;
      narrow.pop_back(), wide.pop_back();
    } else {
      for (Shape* shape : {&narrow, &wide})
        while (!shape->empty() && shape->back() == 1) shape->pop_back();
    }
    if (narrow != wide) break;
    x = from;
  }
  return x;
}

// What is averaged along its last axis, where x is such a mean, spread over that axis again or not.
Tensor averaged(const Tensor& x, const LeafNumbers& numbers) {
  const Scaled mean = numbers.scaled(spread_from(x));
  const Tensor sum = spread_from(mean.value);
  if (!is_op(sum, op::reduce_sum)) return {};
  const Tensor& source = input_of(sum);
  if (sum.node()->attributes.get_ints("axes") != Axes{source.rank() - 1}) return {};
  const double share = mean.factor * static_cast<double>(source.shape().back());
  return std::abs(share - 1) < 1e-6 ? source : Tensor();
}

// What is squared.
Tensor squared(const Tensor& x, const LeafNumbers& numbers) {
  if (is_op(x, op::mul) && input_of(x, 0).same_as(input_of(x, 1))) return input_of(x);
  if (is_op(x, op::pow) && numbers.is(input_of(x, 1), 2)) return input_of(x);
  return {};
}

// A norm without scale: x / sqrt(mean of x^2 + epsilon).
struct Normal {
  Tensor x;
  double epsilon = 0;
};

// Of mean(x^2) + epsilon.
std::optional<Normal> power_of(const Tensor& spread, const LeafNumbers& numbers) {
  const Tensor sum = spread_from(spread);
  if (!is_op(sum, op::add)) return std::nullopt;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const std::optional<double> epsilon = numbers(input_of(sum, side));
    if (!epsilon || !(*epsilon >= 0)) continue;
    const Tensor squares = averaged(input_of(sum, 1 - side), numbers);
    if (!squares.defined()) continue;
    if (const Tensor x = squared(squares, numbers); x.defined()) return Normal{x, *epsilon};
  }
  return std::nullopt;
}

// Of sqrt(mean(x^2) + epsilon).
std::optional<Normal> root_of(const Tensor& spread, const LeafNumbers& numbers) {
  const Tensor root = spread_from(spread);
  if (is_op(root, op::sqrt)) return power_of(input_of(root), numbers);
  if (is_op(root, op::pow) && numbers.is(input_of(root, 1), 0.5)) return power_of(input_of(root), numbers);
  return std::nullopt;
}

std::optional<Normal> inverse_root_of(const Tensor& spread, const LeafNumbers& numbers) {
  const Tensor inverse = spread_from(spread);
  if (is_op(inverse, op::rsqrt)) return power_of(input_of(inverse), numbers);
  if (is_op(inverse, op::pow) && numbers.is(input_of(inverse, 1), -0.5)) return power_of(input_of(inverse), numbers);
  if (is_op(inverse, op::div) && numbers.is(input_of(inverse, 0), 1)) return root_of(input_of(inverse, 1), numbers);
  return std::nullopt;
}

std::optional<Normal> normal_of(const Tensor& y, const LeafNumbers& numbers) {
  if (is_op(y, op::div)) {
    const auto found = root_of(input_of(y, 1), numbers);
    if (found && found->x.same_as(input_of(y, 0))) return found;
  } else if (is_op(y, op::mul)) {
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const auto found = inverse_root_of(input_of(y, side), numbers);
      if (found && found->x.same_as(input_of(y, 1 - side))) return found;
    }
  }
  return std::nullopt;
}

// The vector that is added to, or multiplied with, each row of `shape`. A scalar has no rows.
Tensor vector_of(const Tensor& x, const Shape& shape) {
  if (!is_op(x, op::broadcast) || shape.empty() || shape.back() < 2) return {};
  const int64_t width = shape.back();
  const Tensor& source = input_of(x);
  if (source.size() != width || source.shape().back() != width) return {};
  return reshaped(source, {width});
}

Tensor centred(const Tensor& x, const LeafNumbers& numbers) {
  if (!is_op(x, op::sub)) return {};
  const Tensor mean_of = averaged(input_of(x, 1), numbers);
  return mean_of.defined() && mean_of.same_as(input_of(x, 0)) ? mean_of : Tensor();
}

Tensor rms_norm_of(const Tensor& root, const LeafNumbers& numbers) {
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const Tensor scale = vector_of(input_of(root, side), root.shape());
    if (!scale.defined()) continue;
    const auto normal = normal_of(input_of(root, 1 - side), numbers);
    if (normal) return emit(op::rms_norm, {normal->x, scale}, {{"epsilon", normal->epsilon}});
  }
  return {};
}

// A norm that was found, of what is centred, and a bias.
Tensor layer_norm_of(const Tensor& root, const LeafNumbers& numbers) {
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const Tensor norm = input_of(root, 1 - side);
    if (!is_op(norm, op::rms_norm)) continue;
    const Tensor bias = vector_of(input_of(root, side), root.shape()), x = centred(input_of(norm), numbers);
    if (bias.defined() && x.defined())
      return emit(op::layer_norm, {x, input_of(norm, 1), bias}, norm.node()->attributes);
  }
  return {};
}

// e^(x - max x) over its sum.
Tensor softmax_of(const Tensor& root) {
  const Tensor powers = input_of(root, 0), sum = spread_from(input_of(root, 1));
  const Axes last{root.rank() - 1};
  if (!is_op(powers, op::exp) || !is_op(sum, op::reduce_sum) || !input_of(sum).same_as(powers) ||
      sum.node()->attributes.get_ints("axes") != last || !is_op(input_of(powers), op::sub))
    return {};
  const Tensor centred = input_of(powers), x = input_of(centred, 0), highest = spread_from(input_of(centred, 1));
  if (!is_op(highest, op::reduce_max) || !input_of(highest).same_as(x) ||
      highest.node()->attributes.get_ints("axes") != last)
    return {};
  return emit(op::softmax, {x}, {});
}

}  // namespace

Graph find_norms(const Graph& graph, const LeafNumbers& numbers) {
  return rewrite(graph, [&](const Node& node, const std::vector<Tensor>& inputs) -> std::vector<Tensor> {
    const bool product = is_op(node, op::mul), quotient = is_op(node, op::div);
    if ((!product && !quotient && !is_op(node, op::add)) || node.types[0].dtype != DType::kFloat32) return {};
    const Tensor root = emit(*node.operation, inputs, node.attributes);
    const Tensor found = quotient  ? softmax_of(root)
                         : product ? rms_norm_of(root, numbers)
                                   : layer_norm_of(root, numbers);
    return {found.defined() ? found : root};
  });
}

}  // namespace transom
