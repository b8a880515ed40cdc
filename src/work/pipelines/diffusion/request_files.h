// SPDX-License-Identifier: Apache-2.0
// What the files of a request change of a pipeline: LoRA of its networks, and learned words of its encoders.
#pragma once

#include <vector>

#include "models/diffusion/prompt_encoders.h"
#include "work/pipelines/diffusion/lora/lora_weights.h"

namespace transom {

class RequestFiles {
 public:
  // Leaves the pipeline with the files of the request and no others. Needs exclusive use.
  void use(const PictureRequest& request, PromptEncoders& encoders, const LoraWeights::Parts& parts);

 private:
  LoraWeights lora_;
  std::vector<WordFile> known_;
};

}  // namespace transom
