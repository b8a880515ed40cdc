// SPDX-License-Identifier: Apache-2.0
// x / 2 (1 + erf(x / sqrt 2)), and its approximation by tanh, in any order of factors.
#include <cmath>
#include <vector>

#include "graph/ops/function_records.h"
#include "graph/passes/composites/pattern_values.h"

namespace transom {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752440, kSqrtTwoOverPi = 0.79788456080286535588, kCubic = 0.044715;
constexpr size_t kMostFactors = 6;
constexpr int kMostGeluSteps = 8;

bool near(double a, double b) { return std::abs(a - b) <= 2e-6 * std::abs(b); }

// A product taken apart, down to `atom`.
struct Product {
  double number = 1;
  std::vector<Tensor> factors;
};

void take_apart(const Tensor& x, const Tensor& atom, const LeafNumbers& numbers, int steps, Product& product) {
  if (product.factors.size() > kMostFactors) return;
  if (!x.same_as(atom) && steps > 0) {
    if (const std::optional<double> number = numbers(x)) {
      product.number *= *number;
      return;
    }
    const Scaled without = numbers.scaled(x);
    if (!without.value.same_as(x) && !atom.same_as(x)) {
      // Factors may stand within the atom: then it is met on the way down.
      if (is_op(x, op::mul)) {
        for (const Tensor& side : {input_of(x, 0), input_of(x, 1)}) take_apart(side, atom, numbers, steps - 1, product);
      } else {
        product.number /= *numbers(input_of(x, 1));
        take_apart(input_of(x, 0), atom, numbers, steps - 1, product);
      }
      return;
    }
    if (is_op(x, op::mul)) {
      for (const Tensor& side : {input_of(x, 0), input_of(x, 1)}) take_apart(side, atom, numbers, steps - 1, product);
      return;
    }
    if (is_op(x, op::pow)) {
      const std::optional<double> exponent = numbers(input_of(x, 1));
      if (exponent && (*exponent == 2 || *exponent == 3)) {
        for (int i = 0; i < static_cast<int>(*exponent); ++i)
          take_apart(input_of(x, 0), atom, numbers, steps - 1, product);
        return;
      }
    }
  }
  product.factors.push_back(x);
}

Product product_of(const Tensor& x, const Tensor& atom, const LeafNumbers& numbers) {
  Product product;
  take_apart(x, atom, numbers, kMostGeluSteps, product);
  return product;
}

// number * atom^power and nothing else.
bool is_power(const Product& product, const Tensor& atom, size_t power, double number) {
  if (product.factors.size() != power || !near(product.number, number)) return false;
  for (const Tensor& factor : product.factors)
    if (!factor.same_as(atom)) return false;
  return true;
}

// Whether u is sqrt(2 / pi) (x + 0.044715 x^3), also as x (1 + 0.044715 x^2).
bool is_tanh_argument(const Tensor& u, const Tensor& x, const LeafNumbers& numbers) {
  const Product product = product_of(u, x, numbers);
  if (!near(product.number, kSqrtTwoOverPi)) return false;
  const auto is_sum = [&](const Tensor& sum, auto&& is_first, size_t power) {
    if (!is_op(sum, op::add)) return false;
    for (const size_t first : {size_t{0}, size_t{1}})
      if (is_first(input_of(sum, first)) &&
          is_power(product_of(input_of(sum, 1 - first), x, numbers), x, power, kCubic))
        return true;
    return false;
  };
  if (product.factors.size() == 1)
    return is_sum(
        product.factors[0], [&](const Tensor& side) { return side.same_as(x); }, 3);
  if (product.factors.size() != 2) return false;
  const size_t place = product.factors[0].same_as(x) ? 1 : 0;
  return product.factors[1 - place].same_as(x) &&
         is_sum(
             product.factors[place], [&](const Tensor& side) { return numbers.is(side, 1); }, 2);
}

// Of a factor m erf(...) + m or m tanh(...) + m.
struct Distribution {
  Tensor function;
  double number = 1;
};

std::optional<Distribution> distribution_of(const Tensor& factor, const LeafNumbers& numbers) {
  if (!is_op(factor, op::add)) return std::nullopt;
  for (const size_t one : {size_t{0}, size_t{1}}) {
    const std::optional<double> number = numbers(input_of(factor, one));
    const Scaled other = numbers.scaled(input_of(factor, 1 - one));
    if (number && near(other.factor, *number) && (is_op(other.value, op::erf) || is_op(other.value, op::tanh)))
      return Distribution{other.value, *number};
  }
  return std::nullopt;
}

// The sums among the factors of a product, a few steps down.
void find_sums(const Tensor& x, const LeafNumbers& numbers, int steps, std::vector<Tensor>& sums) {
  if (is_op(x, op::add)) sums.push_back(x);
  if (steps == 0) return;
  if (is_op(x, op::mul))
    for (const Tensor& side : {input_of(x, 0), input_of(x, 1)}) find_sums(side, numbers, steps - 1, sums);
  if (is_op(x, op::div) && numbers(input_of(x, 1))) find_sums(input_of(x, 0), numbers, steps - 1, sums);
}

// What x may be, where u is the argument of the function.
std::vector<Tensor> candidates(const Tensor& u, const LeafNumbers& numbers) {
  std::vector<Tensor> found;
  for (Tensor x = u;;) {
    found.push_back(x);
    if (is_op(x, op::mul) && numbers(input_of(x, 1))) x = Tensor(input_of(x, 0));
    else if (is_op(x, op::mul) && numbers(input_of(x, 0))) x = Tensor(input_of(x, 1));
    else if (is_op(x, op::div) && numbers(input_of(x, 1))) x = Tensor(input_of(x, 0));
    else break;
  }
  const Tensor inner = found.back();
  if (is_op(inner, op::add) || is_op(inner, op::mul))
    for (const Tensor& side : {input_of(inner, 0), input_of(inner, 1)}) {
      found.push_back(side);
      if (is_op(side, op::mul))
        for (const Tensor& deeper : {input_of(side, 0), input_of(side, 1)}) found.push_back(deeper);
    }
  return found;
}

Tensor gelu_of(const Tensor& root, const LeafNumbers& numbers) {
  std::vector<Tensor> sums;
  find_sums(root, numbers, 3, sums);
  for (const Tensor& sum : sums) {
    const std::optional<Distribution> distribution = distribution_of(sum, numbers);
    if (!distribution) continue;
    const bool exact = is_op(distribution->function, op::erf);
    const Tensor u = input_of(distribution->function);
    for (const Tensor& x : candidates(u, numbers)) {
      const bool fits = exact ? is_power(product_of(u, x, numbers), x, 1, kSqrtHalf) : is_tanh_argument(u, x, numbers);
      if (!fits) continue;
      const Product whole = product_of(root, x, numbers);
      if (whole.factors.size() != 2 || !near(whole.number * distribution->number, 0.5)) continue;
      const size_t place = whole.factors[0].same_as(x) ? 1 : 0;
      if (whole.factors[1 - place].same_as(x) && whole.factors[place].same_as(sum))
        return emit(exact ? op::gelu : op::gelu_tanh, {x}, {});
    }
  }
  return {};
}

}  // namespace

Graph find_gelu(const Graph& graph, const LeafNumbers& numbers) {
  return rewrite(graph, [&](const Node& node, const std::vector<Tensor>& inputs) -> std::vector<Tensor> {
    if ((!is_op(node, op::mul) && !is_op(node, op::div)) || node.types[0].dtype != DType::kFloat32) return {};
    const Tensor root = emit(*node.operation, inputs, node.attributes);
    const Tensor found = gelu_of(root, numbers);
    return {found.defined() ? found : root};
  });
}

}  // namespace transom
