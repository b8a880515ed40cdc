// SPDX-License-Identifier: Apache-2.0
// Linear layers in 8-bit integers, and weights in block formats.
#pragma once

#include <string>

#include "transom/ops.h"

namespace transom {

// As linear(); `transposed`: the weight is [K, N].
Tensor quantized_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, bool transposed = false);

// A matrix [N, K] in a block format: the bytes of each row, and scales. Formats:
//   int8_channel   bytes [N, K], each a number of -127 to 127 plus 128; scales [N]
struct PackedMatrix {
  std::string format;
  Tensor bytes;   // u8 [N, bytes of a row]
  Tensor scales;  // f32
};

// Computed at once; the results are frozen.
PackedMatrix pack_matrix(const Tensor& weight, const std::string& format);
// The matrix [N, K], f32.
Tensor dequantised(const PackedMatrix& matrix);
// x [..., K] -> [..., N], as linear() of the dequantised matrix.
Tensor quantized_matmul(const Tensor& x, const PackedMatrix& weight, const Tensor& bias = {});

}  // namespace transom
