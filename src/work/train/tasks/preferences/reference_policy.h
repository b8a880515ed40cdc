// SPDX-License-Identifier: Apache-2.0
// The policy that another one is held to: the model as it was when its training began. Weights that are not trained are
// shared with it; beside LoRA that is the base, and the adapters as they began (which say nothing where they are new).
#pragma once

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "transom/model.h"

namespace transom {

class ReferencePolicy {
 public:
  // Takes the values of the parameters that are trained. Values that lie in a file take no memory, nor do those of a
  // model that is not trained for as long as this lives.
  enum class During { kTraining, kEvaluation };
  explicit ReferencePolicy(const Model& model, During during = During::kTraining);

  // Outputs of a pass of the model with these values; without gradients.
  NamedTensors outputs(const Model& model, const NamedTensors& inputs, const ForwardContext& context) const;
  // Its logits.
  Tensor logits(const Model& model, const NamedTensors& inputs, const ForwardContext& context) const;

  // reference = alpha model + (1 - alpha) reference
  void move_towards(const Model& model, double alpha);
  void save(const std::filesystem::path& file) const;
  void load(const std::filesystem::path& file);

 private:
  std::vector<std::pair<std::shared_ptr<Parameter>, Tensor>> values_;
};

}  // namespace transom
