// SPDX-License-Identifier: Apache-2.0
// What a run of training writes beside the model, so that it draws: a directory of a pipeline, whose other parts are
// copies of the base's, or a file of LoRA.
#pragma once

#include <map>
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
  std::map<std::string, fs::path> others = {};   // folders of networks in the place of the base's
  std::shared_ptr<const WeightAverage> average;  // what is drawn with; null: the weights

  // Into a directory that holds config.json and model.safetensors of the part.
  void write(const fs::path& directory) const;
};

// pytorch_lora_weights.safetensors, as diffusers' save_lora_weights names the factors of a part; from the adapters that
// a directory of PEFT holds. `by_peft`: by PEFT's names of the two factors, which diffusers gives transformers.
void write_lora(const fs::path& directory, const std::string& part, bool by_peft);

}  // namespace transom
