// SPDX-License-Identifier: Apache-2.0
// The products of a file of LoRA, by the parts of a pipeline and their modules.
#pragma once

#include <map>
#include <string>

#include "files/checkpoint/tensor_view.h"

namespace transom {

// What is added to the weight of a module: scale * up @ down.
struct LoraProduct {
  std::string module;   // as the file names it, for errors
  TensorView down, up;  // [r, ...], [out, r, ...]
  double scale = 1;     // alpha / r
};

// For each part ("unet", "transformer", "text_encoder", "text_encoder_2", "text_encoder_3") the products by
// flat_module(). kohya's scripts call every network that draws a U-Net.
using LoraProducts = std::map<std::string, std::map<std::string, LoraProduct>>;
// `path`: a file, or a folder with pytorch_lora_weights.safetensors. Refuses what is no plain LoRA by name.
LoraProducts read_lora(const std::string& path);

}  // namespace transom
