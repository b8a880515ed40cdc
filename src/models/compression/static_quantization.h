// SPDX-License-Identifier: Apache-2.0
// Static quantisation: weights and inputs of linear layers and convolutions in 8 bits, with the scales of the inputs
// found on a calibration and kept in the checkpoint (Jacob et al., "Quantization and training of neural networks for
// efficient integer-arithmetic-only inference", 2018).
#pragma once

#include "models/compression/quantize.h"

namespace transom {

// quantize_model() with the method static.
QuantizeReport quantize_statically(const std::string& source, const std::string& output,
                                   const QuantizeOptions& options);

}  // namespace transom
