// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit integers: weights whose codes a checkpoint holds, with inputs whose scale it holds too (static
// quantisation) or which are rounded as they come (dynamic).
#pragma once

#include <optional>

#include "transom/ops.h"

namespace transom {

// A weight of a linear layer [N, K] or of a convolution [O, C / groups, window...] in integers, and how its inputs
// become integers: q = round(x / input_scale + zero_point), cut to the type's range.
struct IntegerWeight {
  Tensor codes;          // i8
  Tensor scales;         // f32 [N]
  Tensor input_scale;    // f32 []
  Tensor input_inverse;  // f32 []: 1 / input_scale
  DType input_type = DType::kUInt8;
  int64_t zero_point = 0;
};

inline constexpr int64_t kMostIntegerDepth = 1 << 16;  // of a sum: 255 times 128 so often stays below 2^31

// x [..., K] as u8 or i8, w i8 [N, K] -> f32 [..., N]: the sums of (x - zero_point) w, each rounded once.
Tensor integer_linear(const Tensor& x, const Tensor& weight, int64_t zero_point);
// x [N, C, spatial...] as u8 or i8, w i8 -> f32: the same for a convolution. What is padded is zero_point.
Tensor integer_convolution(const Tensor& x, const Tensor& weight, const ConvolutionOptions& options,
                           int64_t zero_point);

// x as the weight reads it, and the numbers that such integers stand for, in f32.
Tensor static_codes(const Tensor& x, const IntegerWeight& weight);
Tensor static_numbers(const Tensor& codes, const IntegerWeight& weight);
// As linear() and convolution() with such a weight; x may be its codes. The result has x's type, of codes f32.
Tensor quantized_linear(const Tensor& x, const IntegerWeight& weight, const Tensor& bias);
Tensor quantized_convolution(const Tensor& x, const IntegerWeight& weight, const ConvolutionOptions& options);

// A convolution whose weight [O, ...] is rounded by output and whose images by their largest magnitude, in 255 steps.
Tensor quantized_convolution(const Tensor& x, const Tensor& weight, const ConvolutionOptions& options);
// Whether that is done in place of the convolution where Computing::int8 asks for integers: with a few products an
// output (windows of one channel, say) rounding costs more than it saves, and loses most.
bool quantizes_convolution(const Tensor& weight);

// The numbers that the codes stand for, in f32 and the layout of the weight.
Tensor dequantised(const IntegerWeight& weight);

}  // namespace transom
