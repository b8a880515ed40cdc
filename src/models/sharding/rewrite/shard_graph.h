// SPDX-License-Identifier: Apache-2.0
// The sharding pass: a graph over whole tensors becomes the graph of this process over its parts, with the collectives
// that this takes. Placements go from the inputs to what is computed of them; where an operation may be cut in several
// ways, the one is taken that moves the fewest bytes. Whatever the placements, the values are those of the graph.
//
// All processes shard the same graph with the same placements, and so ask for the same collectives in one order.
#pragma once

#include <functional>
#include <map>
#include <unordered_map>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/tensor_map.h"
#include "graph/ops/attention/partial_attention.h"
#include "models/sharding/rewrite/reshard.h"
#include "models/sharding/rules/factor_rules.h"

namespace transom {

// How attention sees whole sequences of which each process has a part.
enum class ContextStrategy {
  kHeads,  // all places of some heads for each process (Jacobs et al., "DeepSpeed Ulysses", 2023), if there are enough
  kKeys,   // own queries, and keys and values of all processes
  kRing,   // own queries, and keys and values of one process after the other (see ring_attention.h)
};

// The parts of a training step, by the order in which its nodes were made (Node::sequence).
struct StepPhases {
  uint64_t backward_from = UINT64_MAX, update_from = UINT64_MAX;
};

class GraphSharder {
 public:
  explicit GraphSharder(const ProcessMesh& mesh, StepPhases phases = {}, bool keeps_gathered = false,
                        ContextStrategy context = ContextStrategy::kHeads)
      : mesh_(mesh), phases_(phases), keeps_gathered_(keeps_gathered), context_(context), resharder_(mesh) {}

  // Sequence parallel (Korthikanti et al., "Reducing activation recomputation in large transformer models", 2022): what
  // the forward pass would sum over tp is summed into stretches of sequences instead, [batch, places, ...], one for
  // each process, and so is all that is computed of it, until a product with weights that are cut along tp needs the
  // whole. That is gathered for each pass anew. Before shard().
  void cut_sequences_along_tensor_axis(bool cut) { cuts_sequences_ = cut && mesh_.size(MeshAxis::kTensor) > 1; }

  // What this process has of an input of the graph. Along the axes in `stored` it is cut for storage alone: forward and
  // backward pass gather it when they use it, each for itself; the update works on the parts.
  void place(const Tensor& input, ShardedValue value, MeshAxes stored = {});
  // An input that all processes have whole is cut before it is used.
  void cut(const Tensor& input, const Placement& placement);
  // Once it is computed, the tensor is brought to this placement.
  void prefer(const Tensor& tensor, const Placement& placement);

  // Visits the nodes that these need.
  void shard(const std::vector<Tensor>& outputs);
  // What shard() found, in this placement.
  ShardedValue value(const Tensor& tensor, const Placement& placement);
  const ShardedValue& value(const Tensor& tensor) const;

  const std::vector<CollectiveRecord>& collectives() const { return resharder_.records(); }
  // The number (Node::sequence) from which on nodes of this process's graph belong to the backward pass.
  uint64_t local_backward_from() const { return local_backward_from_; }
  // Told of each operation with what its first output became; for explanations.
  using Observer = std::function<void(const Node& node, const ShardedValue& value)>;
  void observe(Observer observer) { observer_ = std::move(observer); }

 private:
  enum class Phase { kForward, kBackward, kUpdate };
  // Each value in the placements that were asked for so far; the first is what was computed.
  struct Forms {
    std::vector<ShardedValue> values;
    MeshAxes stored;
    int64_t used_in = -1;  // of stored tensors: the unit of parameters that was gathered last when it was used
  };
  using NodePointer = std::shared_ptr<Node>;
  // Of a tensor of groups: which rows go where (see expert_rows.cpp).
  struct ExpertRoute {
    Cuts rows;             // of the first dimension, where rows stand
    bool travel = false;   // else each process has all rows, and passes over those of others
    int64_t bound = 0;     // of rows from one process to another
    Range experts;         // of this process
    Tensor groups;         // of rows that are here; -1: none
    Tensor sent, sent_of;  // the row, and the row of x of two axes, for each place of what is sent
    Tensor places;         // of each row in what is sent, and so in what comes back
    Shape shape;           // of the groups here
  };
  // A value that is with the experts, as a tensor [R, W].
  struct WithExperts {
    Tensor groups;
    ShardedValue value;
  };

  void visit(const NodePointer& node, Phase phase);
  // The node as what it stands for, over the same inputs.
  void visit_in_place_of(const NodePointer& node, const std::vector<Tensor>& outputs, Phase phase);
  void pass_barrier(const NodePointer& node);
  void shard_by_rule(const NodePointer& node, const FactorRule& rule, Phase phase);
  // The same of inputs that are given; what is computed is stored in parts along `stored`.
  void shard_inputs_by_rule(const NodePointer& node, const FactorRule& rule, std::vector<ShardedValue> inputs,
                            MeshAxes stored);
  void replicate(const NodePointer& node);
  // Sequence parallel (see sequence_parallel.cpp): a result of which a sum over tp is owed, as it is kept; inputs of a
  // product as it needs them; and the form without tp, where tp cuts the places of a sequence.
  ShardedValue into_stretches(ShardedValue value, Phase phase);
  void gather_stretches(const Node& node, const FactorRule& rule, std::vector<ShardedValue>& inputs);
  ShardedValue with_all_places(const Tensor& tensor, const ShardedValue& value);
  void forget_gathered_stretches();
  // Attention over sequences of which each process has some places (see cut_sequences.cpp); false where they are whole.
  bool shard_attention(const NodePointer& node, Phase phase);
  // The same by messages around a ring; false where it does not fit. Sums of `inputs` may be owed.
  bool shard_ring_attention(const NodePointer& node, std::vector<ShardedValue>& inputs);
  // Operations along a dimension that is cut, each with a way of its own (see cut_dimensions.cpp); false where the
  // dimension is whole.
  bool shard_along_cut(const NodePointer& node, Phase phase);
  // Products by group whose weights are spread over the axis ep by group (see expert_rows.cpp): rows travel to the
  // processes of their weights. What is computed of them element by element stays there until it is needed elsewhere.
  bool shard_grouped(const NodePointer& node, Phase phase);
  bool shard_with_experts(const NodePointer& node);
  void shard_grouped_gradient(const NodePointer& node, Phase phase);
  const ExpertRoute& route_of(const Tensor& groups, int64_t weights, Phase phase);
  // The rows of x that this process has weights for, [R, W], their last dimension cut so.
  ShardedValue with_experts(const Tensor& x, const Tensor& groups, const Cuts& width);
  ShardedValue brought_home(const Tensor& tensor);
  // Slices of a dimension in which several stand joined, and their gradients (see joined_dimensions.cpp).
  bool slice_joined(const NodePointer& node);
  bool pad_joined(const NodePointer& node);
  void reduce_parts(const NodePointer& node, const ShardedValue& x);
  void look_up_in_parts(const NodePointer& node, const ShardedValue& table);
  void add_to_parts(const NodePointer& node, const ShardedValue& x);
  // Inputs of which sums are owed, summed unless the operation is linear in them. The axes that are left.
  MeshAxes settle_sums(const Node& node, std::vector<ShardedValue>& inputs);
  // Where input i goes when it is summed over these axes: into the parts that another input of its shape is cut into.
  Placement where_summed(const Node& node, const std::vector<ShardedValue>& inputs, size_t i, MeshAxes over) const;
  // The value as operations of this phase see it.
  ShardedValue used(const Tensor& tensor, Phase phase);
  ShardedValue in_form(const Tensor& tensor, const Placement& placement);
  Forms& forms_of(const Tensor& tensor);
  void store(const NodePointer& node, std::vector<ShardedValue> outputs);
  void enter(Phase phase);

  const ProcessMesh& mesh_;
  StepPhases phases_;
  bool keeps_gathered_;  // of stored tensors, from the forward to the backward pass
  ContextStrategy context_;
  bool cuts_sequences_ = false;  // along tp
  Resharder resharder_;
  Phase phase_ = Phase::kForward;
  uint64_t local_backward_from_ = UINT64_MAX;
  TensorMap<Forms> forms_;
  TensorMap<ExpertRoute> routes_;
  TensorMap<WithExperts> with_experts_;
  TensorMap<Placement> preferred_;
  // What attention by messages found for queries, for the backward pass.
  struct RingResult {
    std::vector<Tensor> inputs;  // of the whole
    Attributes attributes;
    Placement placement;
    PartialAttention result;
  };
  TensorMap<RingResult> ring_results_;
  // What was sliced of joined dimensions, by shape and place: how these are cut. Gradients go back to there.
  std::map<std::vector<int64_t>, std::vector<Cuts>> sliced_joined_;
  Observer observer_;
};

}  // namespace transom
