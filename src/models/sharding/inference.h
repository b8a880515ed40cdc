// SPDX-License-Identifier: Apache-2.0
// A model that answers from the processes of a mesh, each of which has a part of its weights and of what passes leave
// for later ones (keys and values of attention). In a pipeline each stage has those of its layers.
#pragma once

#include "models/sharding/model_sharding.h"
#include "runtime/tensor/evaluator.h"

namespace transom {

class ShardedInference : public Evaluator {
 public:
  // Takes the model's parameters (see ModelSharding), which must outlive it. Throws an Error of kind kUsage where the
  // sizes of `layout` do not make `ranks`, and for models that no pipeline takes (see stages_of).
  ShardedInference(Model& model, const ShardingLayout& layout, int64_t rank, int64_t ranks);

  std::vector<Tensor> evaluate(std::span<const Tensor> outputs, const std::vector<Tensor>& state) override;
  // Rank 0 of the process group.
  bool leads() const override;
  std::string from_leader(const std::string& mine) override;
  // Bytes of weights and of state that this process holds.
  int64_t bytes() { return sharding_.tensors().bytes(); }

 private:
  ModelSharding sharding_;
  std::vector<Tensor> state_;  // of the call before
};

}  // namespace transom
