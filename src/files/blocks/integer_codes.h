// SPDX-License-Identifier: Apache-2.0
// Weights of static quantisation: integers with a scale for each output, and the scale of the inputs beside them, so
// that products are those of integers (w8a8 of compressed-tensors with a scale for each tensor of inputs).
#pragma once

#include <vector>

#include "files/checkpoint/tensor_view.h"

namespace transom {

// Of a linear layer [N, K], or a convolution [O, C / groups, window...]. Inputs become q = round(x / input_scale) +
// input_zero_point within -128 to 127.
struct IntegerCodes {
  TensorView codes;           // i8
  std::vector<float> scales;  // [N]
  float input_scale = 1;
  int input_zero_point = 0;
};

}  // namespace transom
