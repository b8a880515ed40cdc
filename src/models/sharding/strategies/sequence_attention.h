// SPDX-License-Identifier: Apache-2.0
// Attention over sequences of which each process has some places.
#pragma once

#include <vector>

#include "graph/ir/tensor_map.h"
#include "graph/ops/attention/partial_attention.h"
#include "models/sharding/strategies/node_strategy.h"
#include "models/sharding/strategies/shard_by_rule.h"

namespace transom {

// How attention sees whole sequences of which each process has a part.
enum class ContextStrategy {
  kHeads,  // all places of some heads for each process (Jacobs et al., "DeepSpeed Ulysses", 2023), if there are enough
  kKeys,   // own queries, and keys and values of all processes
  kRing,   // own queries, and keys and values of one process after the other (see ring_attention.h)
};

class SequenceAttention : public NodeStrategy {
 public:
  SequenceAttention(ShardedForms& forms, SequenceStretches& stretches, ShardByRule& by_rule, ContextStrategy context)
      : forms_(forms), stretches_(stretches), by_rule_(by_rule), context_(context) {}

  // kNo where sequences are whole.
  Sharded shard(const NodePointer& node) override;

 private:
  // By messages around a ring; false where it does not fit. Sums of `inputs` may be owed.
  bool shard_in_ring(const NodePointer& node, const std::vector<ShardedValue>& inputs);
  // Input i, with its sums, in this placement.
  ShardedValue brought(const Node& node, const std::vector<ShardedValue>& inputs, size_t i, const Placement& placement);

  // What messages found for queries, for the backward pass.
  struct RingResult {
    std::vector<Tensor> inputs;  // of the whole
    Attributes attributes;
    Placement placement;
    PartialAttention result;
  };

  ShardedForms& forms_;
  SequenceStretches& stretches_;
  ShardByRule& by_rule_;
  ContextStrategy context_;
  TensorMap<RingResult> ring_results_;
};

}  // namespace transom
