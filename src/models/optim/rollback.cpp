// SPDX-License-Identifier: Apache-2.0
#include "models/optim/rollback.h"

#include "graph/ir/node.h"
#include "runtime/tensor/evaluate.h"
#include "runtime/tensor/host_values.h"

namespace transom {

Rollback::Rollback(const std::vector<std::shared_ptr<Parameter>>& parameters,
                   const std::vector<std::shared_ptr<Parameter>>& buffers, Optimizer& optimizer)
    : steps_(optimizer.steps()), optimizer_(&optimizer) {
  for (const auto* group : {&parameters, &buffers})
    for (const std::shared_ptr<Parameter>& parameter : *group)
      parameters_.emplace_back(parameter, remember(parameter->value));
  for (const auto& [name, tensor] : optimizer.state()) state_.emplace_back(name, remember(tensor));
}

Rollback::Value Rollback::remember(const Tensor& tensor) {
  if (is_in_host_memory(tensor)) return {.in_host_memory = tensor};
  Value value{tensor.type(), buffer_of(tensor), tensor.requires_grad(), {}};
  ++references_[value.buffer.get()];
  return value;
}

Tensor Rollback::restored(const Value& value) {
  if (value.in_host_memory.defined()) return value.in_host_memory;
  Tensor tensor = make_input(value.type, value.buffer);
  tensor.set_requires_grad(value.requires_grad);
  return tensor;
}

Rollback::~Rollback() {
  if (!optimizer_) return;
  for (const auto& [parameter, value] : parameters_) parameter->value = restored(value);
  std::vector<std::pair<std::string, Tensor>> state;
  for (const auto& [name, value] : state_) state.emplace_back(name, restored(value));
  optimizer_->restore(steps_, std::move(state));
}

long Rollback::references_to(const std::shared_ptr<Buffer>& buffer) const {
  const auto found = references_.find(buffer.get());
  return found == references_.end() ? 0 : found->second;
}

std::vector<std::pair<std::string, Tensor>> Rollback::state_in_host_memory() const {
  std::vector<std::pair<std::string, Tensor>> state;
  for (const auto& [name, value] : state_)
    if (value.in_host_memory.defined()) state.emplace_back(name, value.in_host_memory);
  return state;
}

void Rollback::discard() {
  optimizer_ = nullptr;
  parameters_.clear();
  state_.clear();
}

}  // namespace transom
