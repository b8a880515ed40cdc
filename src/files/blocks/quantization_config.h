// SPDX-License-Identifier: Apache-2.0
// Weights that quantization_config of a config.json describes: GPTQ, AWQ, compressed-tensors, fine-grained fp8,
// bitsandbytes, MXFP4, in the forms in which those libraries and Transformers write them.
#pragma once

#include <optional>

#include "files/checkpoint/checkpoint.h"
#include "files/config/config.h"

namespace transom {

// The quantization_config of a model's directory, or what older checkpoints have beside config.json
// (quantize_config.json of GPTQ, quant_config.json of AWQ); nothing where there is none.
std::optional<Config> quantization_config(const fs::path& directory);

// Makes compressed weights of the tensors that belong together (X.qweight, X.scales ... become X.weight). Methods and
// layouts that are not known are errors that name them.
void read_quantized_weights(const Config& config, Checkpoint& checkpoint);

// One reader a method.
void read_gptq(const Config& config, Checkpoint& checkpoint);
void read_awq(const Config& config, Checkpoint& checkpoint);
void read_compressed_tensors(const Config& config, Checkpoint& checkpoint);
void read_fine_grained_fp8(const Config& config, Checkpoint& checkpoint);
void read_bitsandbytes(const Config& config, Checkpoint& checkpoint);
void read_mxfp4(const Config& config, Checkpoint& checkpoint);

}  // namespace transom
