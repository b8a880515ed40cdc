// SPDX-License-Identifier: Apache-2.0
// A model's forward passes as compiled functions, for the modes compile and graph.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "transom/compile.h"
#include "transom/model.h"

namespace transom {

class CompiledForward {
 public:
  // Whether a pass is to be one: the mode says so, nobody will ask for gradients, and no function is being traced.
  static bool applies(const NamedTensors& inputs, const ForwardContext& context);

  NamedTensors operator()(const Model& model, const NamedTensors& inputs, const ForwardContext& context);

 private:
  struct Pass {
    std::optional<CompiledFunction> function;
    std::vector<std::string> results;  // their names
  };

  std::mutex mutex_;
  std::vector<Tensor> weights_;         // that the functions are bound to
  std::map<std::string, Pass> passes_;  // by the names of the inputs, and what else the pass depends on
};

}  // namespace transom
