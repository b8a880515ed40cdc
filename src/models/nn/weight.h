// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/model.h"
#include "transom/ops.h"

namespace transom {

// The product of a linear layer, x [..., K] -> [..., N], in whichever form the weight is: a tensor [N, K] ([K, N] where
// its use is kTransposedLinear) or packed rows; in 8-bit integers where these are chosen; with what the weight's
// adapter adds.
Tensor linear(const Tensor& x, const Parameter& weight, const Tensor& bias, ForwardContext& context);
// The same of the weight alone.
Tensor product_without_adapter(const Tensor& x, const Parameter& weight, const Tensor& bias,
                               const Computing& computing);

// A convolution in whichever form its weight is: a tensor or integers; images in 8-bit integers where these are chosen.
Tensor convolution(const Tensor& x, const Parameter& weight, const ConvolutionOptions& options,
                   const Computing& computing);

// Where the weight is of integers whose inputs have a scale of their own: x as those integers, which may stand for x in
// the functions above; else an empty Tensor.
Tensor codes_of(const Tensor& x, const Parameter& weight);
Tensor numbers_of_codes(const Tensor& codes, const Parameter& weight);
bool reads_as_codes(const Parameter& one, const Parameter& other);

// Rows ids [...] of a table [V, D], as its adapter changes them: [..., D]. Packed ones come in the type that is
// computed in.
Tensor rows_of(const Parameter& table, const Tensor& ids, const Computing& computing);
// The weight as a tensor in the layout of the checkpoint: its value, or the packed rows in `dtype`.
Tensor unpacked(const Parameter& weight, DType dtype);

}  // namespace transom
