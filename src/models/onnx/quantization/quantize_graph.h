// SPDX-License-Identifier: Apache-2.0
// Static quantisation of an ONNX graph: QuantizeLinear and DequantizeLinear with the scales of a calibration.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/onnx/import/run/imported_graph.h"
#include "models/onnx/proto/write_model.h"
#include "models/onnx/quantization/scheme.h"

namespace transom::onnx {

struct QuantizationReport {
  std::map<std::string, int64_t> integer_nodes, float_nodes;  // operator -> how many; what only moves is in neither
  int64_t samples = 0;                                        // rows of the calibration
  double signal_to_noise = 0;                                 // dB, of the first output over all rows
  std::optional<double> same_first;  // of outputs [rows, classes]: share of rows with the same greatest element
};

// Writes convolutions, products with weights and, for xint8, what lies between them, as integers: weights int8, one
// scale a tensor; activations as the scheme says. `samples`: batches of inputs, at least one. Equal scales where the
// compilers ask for them: before and behind MaxPool and Concat, both sides of an addition (xint8).
WrittenModel quantize_graph(WrittenModel model, const QuantizationScheme& scheme,
                            const std::vector<NamedValues>& samples, QuantizationReport& report);

}  // namespace transom::onnx
