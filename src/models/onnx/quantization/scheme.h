// SPDX-License-Identifier: Apache-2.0
// The integer formats that AMD's compilers for NPUs take, as QuantizeLinear and DequantizeLinear in a float graph.
// Names and rules are those of Quark (its XINT8, A8W8 and A16W8 configurations): symmetric, one scale a tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace transom::onnx {

// How a scale is found from the values that a tensor had.
enum class CalibrationMethod {
  kMinMax,      // the greatest absolute value
  kPercentile,  // 99.99 % of the absolute values lie below it
  kMse,         // of the scales below that of kMinMax, the one with the least mean squared error
};

struct QuantizationScheme {
  std::string name;
  int activation_bits = 8;
  bool powers_of_two = false;  // of scales; biases are then int8 too, with scales of their own, and not int32
  CalibrationMethod method = CalibrationMethod::kMinMax;
};

// "xint8", "a8w8" or "a16w8"; `method`: "minmax", "percentile", "mse", or "" for the scheme's own (mse for xint8, else
// minmax). Throws for other names.
QuantizationScheme quantization_scheme(std::string_view name, std::string_view method = "");

}  // namespace transom::onnx
