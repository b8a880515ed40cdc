// SPDX-License-Identifier: Apache-2.0
// Gradients against central differences in float64.
#pragma once

#include <gtest/gtest.h>

#include "support/evaluation.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom::test {

inline double inner_product(const Array& x, const Array& y) {
  double total = 0;
  for (size_t i = 0; i < x.real.size(); ++i) total += x.real[i] * y.real[i];
  return total;
}

// Gradients of sum_i <outputs[i], c_i> with random c, and the leaves that hold c. Outputs that are not floating are
// left out.
struct RandomGradients {
  std::vector<Tensor> outputs, gradients;
  std::vector<Leaf> cotangents;
};

inline RandomGradients random_gradients(const std::vector<Tensor>& outputs, const std::vector<Leaf>& leaves,
                                        std::mt19937_64& random) {
  RandomGradients result;
  std::vector<Tensor> cotangents, sources;
  for (const Tensor& output : outputs) {
    if (!is_floating(output.dtype())) continue;
    result.outputs.push_back(output);
    result.cotangents.push_back(leaf(random_array(output.type(), -1, 1, 1, random)));
    cotangents.push_back(result.cotangents.back().tensor);
  }
  for (const Leaf& l : leaves)
    if (l.value.floating()) sources.push_back(l.tensor);
  result.gradients = gradients(result.outputs, cotangents, sources);
  return result;
}

// Compares the gradient for every floating leaf, along random directions, with the central difference. A wrong element
// anywhere changes the slope along almost every direction.
inline void expect_central_differences(const std::vector<Tensor>& outputs, const std::vector<Leaf>& leaves,
                                       std::mt19937_64& random) {
  constexpr double kStep = 1e-5;
  // The difference is off by kStep^2 times the third derivative, and by the rounding of the sums over kStep.
  constexpr double kTolerance = 2e-6;
  const RandomGradients found = random_gradients(outputs, leaves, random);
  std::vector<Leaf> all = leaves;
  all.insert(all.end(), found.cotangents.begin(), found.cotangents.end());
  const std::vector<Array> gradient_values = evaluate(found.gradients, all);
  const auto loss_at = [&](size_t moved, const Array& direction, double step) {
    std::vector<Leaf> point = leaves;
    for (size_t k = 0; k < direction.real.size(); ++k) point[moved].value.real[k] += step * direction.real[k];
    const std::vector<Array> values = evaluate(found.outputs, point);
    double total = 0;
    for (size_t o = 0; o < values.size(); ++o) total += inner_product(values[o], found.cotangents[o].value);
    return total;
  };
  size_t source = 0;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].value.floating()) continue;
    const Array& gradient = gradient_values[source++];
    ASSERT_EQ(gradient.type, leaves[i].value.type);
    if (gradient.real.empty()) continue;
    for (int repeat = 0; repeat < 3; ++repeat) {
      const Array direction = random_array(leaves[i].value.type, -1, 1, 1, random);
      const double slope = (loss_at(i, direction, kStep) - loss_at(i, direction, -kStep)) / (2 * kStep);
      double scale = 1;
      for (size_t k = 0; k < gradient.real.size(); ++k) scale += std::abs(gradient.real[k] * direction.real[k]);
      EXPECT_NEAR(inner_product(gradient, direction), slope, kTolerance * scale) << "with respect to input " << i;
    }
  }
}

}  // namespace transom::test
