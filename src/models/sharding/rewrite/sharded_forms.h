// SPDX-License-Identifier: Apache-2.0
// The values of a graph that is being sharded, each in the placements that were asked for so far.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "graph/ir/node.h"
#include "graph/ir/tensor_map.h"
#include "models/sharding/rewrite/reshard.h"

namespace transom {

// The part of a training step that a node belongs to.
enum class StepPhase { kForward, kBackward, kUpdate };

using NodePointer = std::shared_ptr<Node>;

// For one thread, as the Resharder that it asks. Tensors are those of the whole graph.
class ShardedForms {
 public:
  // `keeps_gathered`: what is stored in parts stays gathered from the forward to the backward pass.
  ShardedForms(const ProcessMesh& mesh, bool keeps_gathered)
      : mesh_(mesh), keeps_gathered_(keeps_gathered), resharder_(mesh) {}
  ShardedForms(const ShardedForms&) = delete;
  ShardedForms& operator=(const ShardedForms&) = delete;

  const ProcessMesh& mesh() const { return mesh_; }
  Resharder& resharder() { return resharder_; }
  const Resharder& resharder() const { return resharder_; }
  StepPhase phase() const { return phase_; }
  void enter(StepPhase phase);

  // What this process has of an input of the graph; see GraphSharder::place.
  void place(const Tensor& input, ShardedValue value, MeshAxes stored = {});
  // Once it is computed, the tensor is brought to this placement.
  void prefer(const Tensor& tensor, const Placement& placement);
  // The outputs of a node, as they were computed.
  void store(const NodePointer& node, std::vector<ShardedValue> outputs);
  // The outputs of a node in one placement alone, for what comes next.
  void replace(const Tensor& tensor, ShardedValue value) { of(tensor).values = {std::move(value)}; }
  // The output of a node, made when it is first asked for here.
  void store_later(const Tensor& output, std::function<ShardedValue()> make);
  // Axes along which a value is cut for storage alone.
  MeshAxes stored(const Tensor& tensor) { return of(tensor).stored; }
  void set_stored(const Tensor& tensor, MeshAxes axes) { of(tensor).stored = axes; }

  bool contains(const Tensor& tensor) const { return forms_.contains(tensor); }
  // Whether it is to be made later and was not asked for.
  bool is_awaited(const Tensor& tensor) const;
  // As it was computed.
  const ShardedValue& first(const Tensor& tensor) { return of(tensor).values.front(); }
  const ShardedValue& first(const Tensor& tensor) const { return forms_.at(tensor).values.front(); }
  // In this placement: made of the nearest one that there is, and kept.
  ShardedValue in_form(const Tensor& tensor, const Placement& placement);
  // As operations of this phase see it: what is stored in parts is gathered, but for the update.
  ShardedValue used(const Tensor& tensor);
  // Another form of a value that was made elsewhere.
  void add(const Tensor& tensor, ShardedValue value) { of(tensor).values.push_back(std::move(value)); }
  // Lets go of the forms that `is_dropped` names, but for the first, of the values that have one that `is_one_of`
  // names.
  using Test = bool (*)(const ShardedValue&);
  void drop(Test is_one_of, Test is_dropped);

  // What becomes of each value before it is stored.
  void change_results(std::function<ShardedValue(ShardedValue)> change) { change_ = std::move(change); }

 private:
  // The first value is what was computed.
  struct Forms {
    std::vector<ShardedValue> values;
    MeshAxes stored;
    int64_t used_in = -1;  // of stored tensors: the unit of parameters that was gathered last when it was used
    std::function<ShardedValue()> later;  // makes the first value, where there is none
  };
  Forms& of(const Tensor& tensor);

  const ProcessMesh& mesh_;
  bool keeps_gathered_;
  Resharder resharder_;
  StepPhase phase_ = StepPhase::kForward;
  TensorMap<Forms> forms_;
  TensorMap<Placement> preferred_;
  std::function<ShardedValue(ShardedValue)> change_;
};

}  // namespace transom
