// SPDX-License-Identifier: Apache-2.0
// Refuses updates that are not finite, on the device, so that the host need not wait for a norm to know.
#pragma once

#include <memory>
#include <vector>

#include "models/sharding/model_sharding.h"
#include "transom/model.h"

namespace transom {

// The device carries a flag from step to step: all updates so far were finite. One that is not makes it false, and then
// neither this update nor any behind it is applied, until the host has read the numbers and calls reset(). So all
// parameters stay what they were before the first of them, however far the host is ahead.
class FiniteUpdates {
 public:
  enum class Of { kNorm, kNormAndLoss };  // which numbers of an update must be finite

  // `sharding`: null where each process has the whole model; otherwise it holds the flag.
  explicit FiniteUpdates(Of of, ModelSharding* sharding);

  // Whether an update with these numbers is refused.
  bool refuses(double loss, double gradient_norm) const;
  // Adds to the step that is traced whether its update is applied, bool []; this is the flag of the next step.
  Tensor trace(const Tensor& loss, const Tensor& norm);
  // The flag, which a step replaces as it does buffers of the model.
  const std::shared_ptr<Parameter>& flag() const { return flag_; }
  // From now on finite updates are applied.
  void reset();

 private:
  Of of_;
  ModelSharding* sharding_;
  std::shared_ptr<Parameter> flag_;
};

}  // namespace transom
