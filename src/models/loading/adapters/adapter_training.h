// SPDX-License-Identifier: Apache-2.0
// What a kind of adapters adds to training besides its tensors: a term of the loss, and changes that follow updates.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "transom/model.h"

namespace transom {

class AdapterTraining {
 public:
  virtual ~AdapterTraining() = default;
  // f32 [], added to the loss that a pass with labels gives; undefined: nothing.
  virtual Tensor loss(const Computing& computing) const = 0;
  // How many updates are to come in all, where the configuration does not say.
  virtual void expect_updates(int64_t total) = 0;
  // Within the program of update `number`, from 0: parameters have their new values, `gradients` are those that led to
  // them, clipped, in the order of `trained`; undefined ones are zero. Replaces what each update changes.
  virtual void trace_update(std::span<const std::shared_ptr<Parameter>> trained, std::span<const Tensor> gradients,
                            int64_t number) = 0;
  // Behind that update, which has been computed.
  virtual void end_update(int64_t number) = 0;
};

}  // namespace transom
