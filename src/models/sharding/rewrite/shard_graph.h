// SPDX-License-Identifier: Apache-2.0
// The sharding pass: a graph over whole tensors becomes the graph of this process over its parts, with the collectives
// that this takes. Placements go from the inputs to what is computed of them; where an operation may be cut in several
// ways, the one is taken that moves the fewest bytes. Whatever the placements, the values are those of the graph.
//
// All processes shard the same graph with the same placements, and so ask for the same collectives in one order.
#pragma once

#include <vector>

#include "models/sharding/rewrite/sharded_forms.h"
#include "models/sharding/strategies/cut_dimensions.h"
#include "models/sharding/strategies/expert_rows.h"
#include "models/sharding/strategies/joined_dimensions.h"
#include "models/sharding/strategies/sequence_attention.h"
#include "models/sharding/strategies/sequence_stretches.h"
#include "models/sharding/strategies/shard_by_rule.h"

namespace transom {

// The parts of a training step, by the order in which its nodes were made (Node::sequence).
struct StepPhases {
  uint64_t backward_from = UINT64_MAX, update_from = UINT64_MAX;
};

// Goes over the nodes of a graph and lets the first strategy that fits shard each of them.
class GraphSharder {
 public:
  explicit GraphSharder(const ProcessMesh& mesh, StepPhases phases = {}, bool keeps_gathered = false,
                        ContextStrategy context = ContextStrategy::kHeads);

  // Sequence parallel (see sequence_stretches.h). Before shard().
  void cut_sequences_along_tensor_axis(bool cut);

  // What this process has of an input of the graph. Along the axes in `stored` it is cut for storage alone: forward and
  // backward pass gather it when they use it, each for itself; the update works on the parts.
  void place(const Tensor& input, ShardedValue value, MeshAxes stored = {});
  // An input that all processes have whole is cut before it is used.
  void cut(const Tensor& input, const Placement& placement);
  // Once it is computed, the tensor is brought to this placement.
  void prefer(const Tensor& tensor, const Placement& placement) { forms_.prefer(tensor, placement); }

  // Visits the nodes that these need.
  void shard(const std::vector<Tensor>& outputs);
  // What shard() found, in this placement.
  ShardedValue value(const Tensor& tensor, const Placement& placement);
  const ShardedValue& value(const Tensor& tensor) const { return forms_.first(tensor); }

  const std::vector<CollectiveRecord>& collectives() const { return forms_.resharder().records(); }
  // The number (Node::sequence) from which on nodes of this process's graph belong to the backward pass.
  uint64_t local_backward_from() const { return local_backward_from_; }

 private:
  void enter(StepPhase phase);
  void visit(const NodePointer& node);
  // The node as what it stands for, over the same inputs.
  void visit_in_place_of(const NodePointer& node, const std::vector<Tensor>& outputs);
  void visit_decomposed(const NodePointer& node);
  void pass_barrier(const NodePointer& node);
  void replicate(const NodePointer& node);

  StepPhases phases_;
  uint64_t local_backward_from_ = UINT64_MAX;
  ShardedForms forms_;
  SequenceStretches stretches_;
  ShardByRule by_rule_;
  ExpertRows experts_;
  JoinedDimensions joined_;
  CutDimensions cut_dimensions_;
  SequenceAttention attention_;
};

}  // namespace transom
