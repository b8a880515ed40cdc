// SPDX-License-Identifier: Apache-2.0
// Writes a model with its linear layers in 4 or 8 bits, in a format that Transformers and vLLM read.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "transom/model.h"

namespace transom {

struct QuantizeOptions {
  std::string method = "rtn";                 // rounding to the nearest, with scales of the least squared error
  int64_t bits = 4, group_size = 128;         // -1: whole rows
  std::string format = "compressed-tensors";  // or gptq, awq
  std::function<void(int64_t done, int64_t total, const std::string& layer)> on_layer = {};
};

struct QuantizeReport {
  struct Layer {
    std::string name;
    double error = 0;  // root of the mean square of the rounding over that of the weight
  };
  std::vector<Layer> layers;
  std::vector<std::string> kept;  // linear layers whose sizes do not fit
  int64_t bytes_before = 0, bytes_after = 0;
};

// Writes config.json, model.safetensors and generation_config.json into `output`. Heads and embeddings stay as they
// are. Layers are rounded one after the other.
QuantizeReport quantize_model(const std::string& model, const std::string& output, const QuantizeOptions& options);

}  // namespace transom
