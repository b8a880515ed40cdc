// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "device/device.h"
#include "transom/tensor.h"

namespace transom {

// What comes back again and again with the same structure, as the steps of training do. In graph mode each program is
// captured once, with the addresses of what it updates in place, and replayed from then on; in the others it is eval.
class StepRunner {
 public:
  StepRunner();
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  void operator()(std::span<const Tensor> tensors);
  size_t replays() const;  // so far

 private:
  struct Captures;
  std::unique_ptr<Captures> captures_;
};

// The buffer of a tensor, computed now if need be.
std::shared_ptr<Buffer> buffer_of(const Tensor& tensor);

}  // namespace transom
