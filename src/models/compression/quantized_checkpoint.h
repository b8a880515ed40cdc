// SPDX-License-Identifier: Apache-2.0
// Checkpoints whose linear layers have codes: GPTQ, AWQ and compressed-tensors.
#pragma once

#include <string>

#include "files/blocks/quantized_writer.h"
#include "models/compression/calibration/calibration_texts.h"
#include "models/compression/quantize.h"

namespace transom {

// Writes the model, which `source` names in messages, to the directory `output`. The perplexities of the report are
// left to the caller. Calibration leaves the values of codes in the model's parameters.
QuantizeReport write_quantized_checkpoint(const Model& model, const CalibrationTexts& texts, QuantizedFormat format,
                                          const std::string& source, const std::string& output,
                                          const QuantizeOptions& options);

}  // namespace transom
