// SPDX-License-Identifier: Apache-2.0
// What a run of training writes beside the model, so that it draws: a directory of a pipeline, whose other parts are
// those of the base, or a file of LoRA. Files are links where the file system has them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/files/files.h"
#include "transom/model.h"
#include "work/train/tasks/diffusion/weight_average.h"

namespace transom {

struct PipelineOutput {
  std::string part = "unet";                     // which is trained
  std::string index;                             // model_index.json
  std::string schedule;                          // scheduler_config.json
  fs::path base;                                 // where the other parts lie; empty: there are none
  std::shared_ptr<const WeightAverage> average;  // what is drawn with; null: the weights

  // Into a directory that holds config.json and model.safetensors of the part.
  void write(const fs::path& directory) const;
};

// pytorch_lora_weights.safetensors, as diffusers' save_lora_weights names the factors of a part; from the adapters that
// a directory of PEFT holds.
void write_lora(const fs::path& directory, const std::string& part);

}  // namespace transom
