// SPDX-License-Identifier: Apache-2.0
// What a step of training replaces, so that a step that fails changes nothing.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "models/optim/optimizer.h"
#include "runtime/device/device.h"
#include "transom/model.h"

namespace transom {

// Unless discard() is called, the destructor puts the parameters, the buffers and the optimizer's state back as they
// were. Only memory is held, no tensor: see StepRunner, whose `spared` references these are. Updates come last in a
// step, so that what fails before them leaves this memory as it was; where a device broke amid the updates, the values
// say so when they are used next.
class Rollback {
 public:
  Rollback(const std::vector<std::shared_ptr<Parameter>>& parameters,
           const std::vector<std::shared_ptr<Parameter>>& buffers, Optimizer& optimizer);
  ~Rollback();
  Rollback(const Rollback&) = delete;
  Rollback& operator=(const Rollback&) = delete;

  long references_to(const std::shared_ptr<Buffer>& buffer) const;
  void discard();
  // Of the optimizer's state, what lies in host memory.
  std::vector<std::pair<std::string, Tensor>> state_in_host_memory() const;

 private:
  struct Value {
    Type type;
    std::shared_ptr<Buffer> buffer;
    bool requires_grad;
    Tensor in_host_memory;  // in place of a buffer
  };
  Value remember(const Tensor& tensor);
  static Tensor restored(const Value& value);

  std::vector<std::pair<std::shared_ptr<Parameter>, Value>> parameters_;
  std::vector<std::pair<std::string, Value>> state_;
  int64_t steps_;
  Optimizer* optimizer_;  // null: discarded
  std::unordered_map<const Buffer*, long> references_;
};

}  // namespace transom
