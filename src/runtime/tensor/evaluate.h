// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "runtime/device/device.h"
#include "transom/tensor.h"

namespace transom {

// What comes back again and again with the same structure, as the steps of training do. In graph mode each program is
// captured once, with the addresses of what it updates in place, and replayed from then on; in the others it is eval.
// For one thread at a time.
class StepRunner {
 public:
  StepRunner();
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  // `spared`: references to a buffer that do not keep its memory from being taken over. Who holds them must let go of
  // them after a success. After an exception the buffer has its contents, or says that it lost them
  // (Buffer::overwritten): the program takes over such memory last, when only a device that breaks can fail.
  using CountReferences = std::function<long(const std::shared_ptr<Buffer>&)>;
  void operator()(std::span<const Tensor> tensors, const CountReferences& spared = {});
  size_t replays() const;  // so far

 private:
  struct Captures;
  std::unique_ptr<Captures> captures_;
};

// eval() with references that do not keep memory from being taken over, as of StepRunner.
void eval(std::span<const Tensor> tensors, const StepRunner::CountReferences& spared);

// The device of computed tensors; where none of them says, the device in use. Refuses tensors of several devices.
std::shared_ptr<Device> device_of(std::span<const Tensor> tensors);

// The buffer of a tensor, computed now if need be: where it is, or on `device`, where it must be. Values in host memory
// are copied, to the device in use or to `device`.
std::shared_ptr<Buffer> buffer_of(const Tensor& tensor);
std::shared_ptr<Buffer> buffer_of(const Tensor& tensor, Device& device);

// The values of a computed tensor in memory of their own, copied on the device, in its order; the host does not wait.
// Who replays a program keeps its results by this: the next replay finds their first memory free.
Tensor copy_on_device(const Tensor& tensor);

}  // namespace transom
