// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/quantization/scheme.h"

#include "base/error.h"

namespace transom::onnx {

QuantizationScheme quantization_scheme(std::string_view name, std::string_view method) {
  QuantizationScheme scheme{.name = std::string(name)};
  if (name == "xint8") {
    scheme.powers_of_two = true;
    scheme.method = CalibrationMethod::kMse;
  } else if (name == "a16w8") {
    scheme.activation_bits = 16;
  } else if (name != "a8w8") {
    fail(ErrorKind::kUsage, "quantization: expected xint8, a8w8 or a16w8, found {}", quoted(name));
  }
  if (method == "minmax") scheme.method = CalibrationMethod::kMinMax;
  else if (method == "percentile") scheme.method = CalibrationMethod::kPercentile;
  else if (method == "mse") scheme.method = CalibrationMethod::kMse;
  else if (!method.empty())
    fail(ErrorKind::kUsage, "calibration_method: expected minmax, percentile or mse, found {}", quoted(method));
  return scheme;
}

}  // namespace transom::onnx
