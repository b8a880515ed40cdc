// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "transom/tensor.h"

namespace transom {

// The gradient of `loss` (one element) with respect to each of `with_respect_to`: a tensor of the same shape and type,
// zeros if the loss does not depend on it. Extends the graph and computes nothing.
// A value that was computed before remembers how only where an input required a gradient (set_requires_grad()); where
// such a value without memory may depend on a tensor that is asked for, it is an error.
std::vector<Tensor> gradients(const Tensor& loss, const std::vector<Tensor>& with_respect_to);

// The vector-Jacobian product: gradients of sum_i <outputs[i], cotangents[i]>.
std::vector<Tensor> gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& cotangents,
                              const std::vector<Tensor>& with_respect_to);

// Runs `function` so that its gradient computes the inner values again instead of keeping them: less memory, more time.
Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& function, const std::vector<Tensor>& inputs);

}  // namespace transom
