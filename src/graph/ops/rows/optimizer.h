// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/tensor.h"

namespace transom {

struct AdamWConstants {
  double beta1, beta2, epsilon;
};
struct AdamWResult {
  Tensor parameter, first_moment, second_moment;
};

// See the record of adamw_step; all scalars are tensors of shape [].
AdamWResult adamw_step(const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v, const Tensor& step_size,
                       const Tensor& decay, const Tensor& correction, const AdamWConstants& constants);

}  // namespace transom
