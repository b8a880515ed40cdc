// SPDX-License-Identifier: Apache-2.0
// How the losses of the parts of a batch (its micro-batches, the rows of each process) become the loss of the whole:
// the gradient of an update is that of its whole batch, however it is cut.
#pragma once

#include <functional>
#include <vector>

#include "models/nn/losses/loss_divisors.h"
#include "runtime/distributed/process_group.h"

namespace transom {

struct WholeBatch {
  Tensor items;  // what Transformers' Trainer counts for this class, f32 []; empty: the class' own counts
  std::vector<Tensor> divisors;  // see LossDivisors; empty: a part divides by its own counts
  double scale = 1;              // of each part's loss, before the mean over processes

  // What a part computes its loss under; `of_part` is the part's own and outlives the pass.
  void prepare(ForwardContext& context, LossDivisors& of_part) const;
};

struct PartsOfBatch {
  const std::vector<NamedTensors>& micro_batches;
  ProcessGroup* group;  // whose rows are one batch; null: this process alone
  // The labels as Trainer counts them, of classes where that is not what the loss divides by.
  std::function<Tensor(const NamedTensors&)> count_items;
  // Traces the loss of a part; only what its means divide by is computed.
  std::function<void(const NamedTensors&, LossDivisors&)> trace;
};

// The counts are computed on the device, part by part, and added over the processes: the host waits for none.
WholeBatch whole_batch_of(const PartsOfBatch& parts);

}  // namespace transom
