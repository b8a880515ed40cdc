// SPDX-License-Identifier: Apache-2.0
// A model's forward passes as compiled functions, for the modes compile and graph.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "transom/compile.h"
#include "transom/model.h"

namespace transom {

// Any number of threads may call it; a pass that is being traced holds up those who want the same one.
class CompiledForward {
 public:
  // Whether a pass is to be one: the mode says so, nobody will ask for gradients, no function is being traced, and what
  // it computes under has a key (ops/computing.h).
  static bool applies(const NamedTensors& inputs, const ForwardContext& context);

  NamedTensors operator()(const Model& model, const NamedTensors& inputs, const ForwardContext& context);

 private:
  struct Pass {
    std::optional<CompiledFunction> function;
    std::mutex mutex;
    std::vector<std::string> results;  // their names
    uint64_t last_use = 0;
  };
  std::shared_ptr<Pass> find(const Model& model, const std::string& key);  // under the lock

  std::mutex mutex_;
  std::vector<Tensor> weights_;  // that the functions are bound to
  // By the names of the inputs, and what else the pass depends on.
  std::map<std::string, std::shared_ptr<Pass>> passes_;
  uint64_t uses_ = 0;
};

}  // namespace transom
