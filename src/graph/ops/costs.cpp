// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/costs.h"

#include <algorithm>

namespace transom {
namespace {

double count_of(const Type& type) { return static_cast<double>(elements(type.shape)); }

// Elements that one output of a convolution sums: of a group's channels and the window.
double window_of(const Shape& weight) {
  return weight.empty() || weight[0] == 0 ? 0 : static_cast<double>(elements(weight)) / static_cast<double>(weight[0]);
}

}  // namespace

double no_flops(const CostRequest&) { return 0; }

double flops_of_reduction(const CostRequest& cost) { return count_of(cost.inputs[0]); }

double flops_of_convolution(const CostRequest& cost) {
  return 2 * window_of(cost.inputs[1].shape) * count_of(cost.outputs[0]);
}

double flops_of_input_gradient(const CostRequest& cost) {
  return 2 * window_of(cost.inputs[1].shape) * count_of(cost.inputs[0]);
}

double flops_of_weight_gradient(const CostRequest& cost) {
  // As many as the forward pass: each element of dy, the smaller of the images, meets its window.
  const double dy = std::min(count_of(cost.inputs[0]), count_of(cost.inputs[1]));
  return 2 * window_of(cost.outputs[0].shape) * dy;
}

double bytes_of_taken(const CostRequest& cost) {
  return 2 * count_of(cost.outputs[0]) * static_cast<double>(size_of(cost.outputs[0].dtype));
}

}  // namespace transom
