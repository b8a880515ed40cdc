// SPDX-License-Identifier: Apache-2.0
// The linear layers of a model in codes that were chosen by what the layers read.
#pragma once

#include <map>
#include <string>

#include "files/blocks/block_matrix.h"
#include "models/compression/calibration/calibration.h"
#include "models/compression/layer_bits.h"
#include "models/compression/quantize.h"

namespace transom {

struct CalibratedLayers {
  std::map<std::string, std::shared_ptr<const BlockMatrix>> matrices;  // by module
  std::vector<QuantizeReport::Layer> errors;  // root of the mean square of the outputs' error over that of the outputs
};

// Rounds `weights` by options.method (gptq, awq or smoothquant), to options.bits or those of `layer_bits` by module, in
// the order in which the model calls them. Parameters take the values of their codes meanwhile; norms, biases and
// layers that stay are divided by the scales that the layers behind them are multiplied with.
CalibratedLayers calibrated_layers(const Model& model, const std::vector<std::shared_ptr<Parameter>>& weights,
                                   const std::vector<std::vector<int64_t>>& rows, const QuantizeOptions& options,
                                   const std::map<std::string, int>& layer_bits = {});

// What each layer loses by rounding to 4 and to 8 bits: of its outputs on the rows, where there are rows, else of its
// weights. Values stay as they are. group_size -1: whole rows.
std::vector<LayerSensitivity> layer_sensitivities(const Model& model,
                                                  const std::vector<std::shared_ptr<Parameter>>& weights,
                                                  const std::vector<std::vector<int64_t>>& rows, int64_t group_size);

}  // namespace transom
