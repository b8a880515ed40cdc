// SPDX-License-Identifier: Apache-2.0
// Tensors of which each process has a part. Outside they are handles like all others, with the type of the whole, from
// which models and optimizers make graphs; what they stand for is kept here, and their graphs are computed here.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "graph/ir/tensor_map.h"
#include "models/sharding/rewrite/shard_graph.h"
#include "runtime/tensor/evaluate.h"

namespace transom {

// What is to be computed together.
struct ShardedRequest {
  struct Output {
    Tensor tensor;
    // Where its parts go; none: every process gets the whole, and the tensor is computed as any other.
    std::optional<Placement> placement;
    MeshAxes stored = {};      // see GraphSharder::place
    bool as_computed = false;  // held in the placement in which its parts arise, with sums made
  };
  std::vector<Output> outputs;
  std::vector<Tensor> replaced;  // held tensors whose memory may be taken: nobody uses them afterwards
  std::vector<Tensor> consumed;  // the same of those that nobody wants back after a failure either
  std::vector<std::pair<Tensor, Placement>> cut, preferred;  // see GraphSharder
  StepPhases phases = {};
  bool keeps_gathered = false;  // what the forward pass gathers of stored tensors stays for the backward pass
  ContextStrategy context = ContextStrategy::kHeads;
  bool sequence_parallel = false;  // see GraphSharder::cut_sequences_along_tensor_axis
};

// For one thread at a time, and the same calls in the same order on all processes of the mesh.
class ShardedTensors {
 public:
  explicit ShardedTensors(ProcessMesh mesh) : mesh_(std::move(mesh)) {}
  const ProcessMesh& mesh() const { return mesh_; }

  // A tensor of that type, of which `local` is what this process has.
  Tensor hold(Tensor local, const Type& type, const Placement& placement, MeshAxes stored = {});
  // Of a tensor that every process has whole, or could read from a file: only its part is copied.
  Tensor hold_part_of(const Tensor& whole, const Placement& placement, MeshAxes stored = {});
  // The same with the parts in host memory (see tensor/host_values.h), and of zeros.
  Tensor hold_part_on_host(const Tensor& whole, const Placement& placement);
  Tensor hold_zeros(const Type& type, const Placement& placement, bool on_host = false);
  // Moves what is held of a tensor into host memory. `reused`: see in_host_memory().
  void move_to_host(const Tensor& tensor, const Tensor& reused = {});
  // One that another stage of the pipeline has.
  Tensor hold_absent(const Type& type, const Placement& placement, MeshAxes stored = {});
  bool is_absent(const Tensor& tensor) const { return absent_.contains(tensor); }
  bool holds(const Tensor& tensor) const { return held_.contains(tensor); }
  const ShardedValue& value(const Tensor& tensor) const { return held_.at(tensor).value; }
  void let_go(const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) held_.erase(tensor), absent_.erase(tensor);
  }
  void keep_only(const TensorSet& tensors) {
    std::erase_if(held_, [&](const auto& item) { return !tensors.contains(item.first); });
    std::erase_if(absent_, [&](const Tensor& tensor) { return !tensors.contains(tensor); });
  }

  // The outputs: those without a placement as they were given, the others as held tensors. After an exception all is as
  // before, or values say that they are lost.
  std::vector<Tensor> evaluate(const ShardedRequest& request, StepRunner& runner);
  // The graph of this process for the outputs of a request, each in its placement; nothing is computed. Nodes from
  // `backward_from` on are of the backward pass.
  std::vector<ShardedValue> trace(const ShardedRequest& request, uint64_t* backward_from = nullptr);
  // The whole of a held tensor, on every process, though one stage of a pipeline has it; other tensors as they are.
  Tensor gathered(const Tensor& tensor);
  // Bytes that this process holds, on its device and in host memory.
  int64_t bytes() const;

  // What the last evaluation exchanged.
  const std::vector<CollectiveRecord>& collectives() const { return collectives_; }

 private:
  struct Held {
    ShardedValue value;
    MeshAxes stored;
  };
  // A node whose result is asked for gives out all of them, so that it can forget how they were made: the new values of
  // a parameter's part beside its states, where the parameter is gathered. A node of its own asks for the one.
  static void leave_out_other_results(std::vector<ShardedValue>& values);

  ProcessMesh mesh_;
  TensorMap<Held> held_;
  TensorSet absent_;
  std::vector<CollectiveRecord> collectives_;
};

// Makes a computed tensor of one that is not: `value` is what it stands for.
void give_value(const Tensor& tensor, const Tensor& value);

}  // namespace transom
