// SPDX-License-Identifier: Apache-2.0
// What each process writes of a sharded checkpoint, and reads of one: boxes of weights and of the optimizer's state. No
// process holds more than its parts, and what several have is written by one of them.
#pragma once

#include <vector>

#include "files/checkpoint/sharded_safetensors.h"
#include "models/sharding/model_sharding.h"

namespace transom {

struct ModelParts {
  std::vector<TensorBox> weights, states;
};

// Copies of what this process writes; `optimizer` may be null. Throws where a weight is not finite. Not for models with
// adapters, whose checkpoints are PEFT's.
ModelParts copy_parts(ModelSharding& sharding, const Model& model, const Optimizer* optimizer);

// Sets the weights of the model to this process's parts of those in the files, whichever mesh wrote them. Errors name
// what is missing or has another type.
void load_weights(const ShardedTensorFiles& files, ModelSharding& sharding, Model& model);
// The same for the optimizer's state after `steps` updates.
void load_states(const ShardedTensorFiles& files, int64_t steps, ModelSharding& sharding, Optimizer& optimizer,
                 const std::vector<OptimizedParameter>& trained);

}  // namespace transom
