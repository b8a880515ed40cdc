// SPDX-License-Identifier: Apache-2.0
// Functions of tensors that are traced once for each signature and called as programs from then on.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transom/tensor.h"

namespace transom {

struct CompileOptions {
  std::string name = "function";  // what TRANSOM_LOG=recompiles calls it
  // Captures each program with fixed addresses and replays it: no planning and no allocation in a call. Costs an arena
  // and a copy of the arguments of its own for each signature.
  bool capture = false;
  // Arguments that a call uses up: their memory becomes that of results. The caller moves them in; what somebody else
  // still holds is copied first.
  std::vector<size_t> donated;
};

using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>& arguments)>;

// A cheap handle. The signature of a call, its guard, is the types of its arguments and the device; a new one traces
// the function again. What the function reads besides its arguments (the weights of a model) is bound when it is
// traced. Any number of threads may call it: a signature is traced once, by the first who needs it, and holds up nobody
// who calls with another one; replays of one captured signature take turns. So `function` must bear being called by
// several threads at once. Traces are bounded, see caches.h.
class CompiledFunction {
 public:
  CompiledFunction(TensorFunction function, CompileOptions options);

  // The results, computed. Equal to function(arguments) to the bit.
  std::vector<Tensor> operator()(std::vector<Tensor> arguments) const;

  // How often the function was traced.
  size_t traces() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

inline CompiledFunction compile(TensorFunction function, CompileOptions options = {}) {
  return {std::move(function), std::move(options)};
}

}  // namespace transom
