// SPDX-License-Identifier: Apache-2.0
// What export and quantize do with formats of integers in ONNX files.
#pragma once

#include <string>

#include "base/files/files.h"
#include "models/onnx/quantization/quantize_graph.h"

namespace transom {

// What went into integers, and how far the result is from float32, on standard output.
void print_quantization(const onnx::QuantizationReport& report, const onnx::QuantizationScheme& scheme);

// Writes `model`, an .onnx file, with QuantizeLinear and DequantizeLinear: into `output`, a directory (as model.onnx,
// with config.json and what else belongs to a model) or a name that ends with .onnx. `format`: xint8, a8w8 or a16w8.
void quantize_onnx(const fs::path& model, const fs::path& output, const std::string& format,
                   const std::string& calibration_file);

}  // namespace transom
