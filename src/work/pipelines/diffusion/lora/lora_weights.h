// SPDX-License-Identifier: Apache-2.0
// LoRA (Hu et al., 2021) of a pipeline's networks: files of diffusers (PEFT's names and the older ones) and of kohya's
// scripts, added to the weights with a factor each, and taken out again.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "transom/model.h"
#include "work/pipelines/diffusion/picture_request.h"

namespace transom {

class LoraWeights {
 public:
  using Parts = std::vector<std::pair<std::string, Model*>>;  // by their folders; null: the pipeline has none
  // Leaves the weights as they are with these files and no others. Needs exclusive use of the models. Where a file is
  // refused, no file is in use.
  void use(const std::vector<LoraFile>& files, const Parts& parts);

 private:
  void add(const LoraFile& file, const Parts& parts);
  void remove();

  std::vector<LoraFile> used_;
  std::vector<std::pair<Parameter*, Tensor>> originals_;  // the values without
};

}  // namespace transom
