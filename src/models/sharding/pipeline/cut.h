// SPDX-License-Identifier: Apache-2.0
// The graph of one micro-batch, forward and backward, cut into the programs of the stages of a pipeline.
//
// What depends on data and on weights belongs to the stage of the module that made it; gradients go to the stage of the
// module whose gradient they are, never to a later one than what they depend on, nor to an earlier one than what
// depends on them. What depends on data alone, or on weights alone, is computed wherever it is needed. All processes
// cut the same graph (each that of its own parts), and find the same messages in one order.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/tensor_map.h"
#include "models/sharding/pipeline/stages.h"

namespace transom {

class PipelineCut {
 public:
  // `homes`: the stages that outputs of the backward pass are for, by output; none: wherever they arise. `weights`: the
  // leaves that are parts of weights; `kept`: leaves that one stage alone has, and which (what a pass left for the next
  // one). Nodes from `backward_from` on (Node::sequence) are of the backward pass.
  PipelineCut(const std::vector<Tensor>& outputs, const std::vector<std::optional<int64_t>>& homes,
              const std::vector<Tensor>& weights, const PipelineStages& stages, uint64_t backward_from,
              const TensorMap<int64_t>& kept = {});

  // Where an output is made; none: anywhere, without any weight.
  struct Place {
    int64_t stage = 0;
    bool backward = false;
    bool operator==(const Place&) const = default;
  };
  const std::vector<std::optional<Place>>& outputs() const { return output_places_; }

  // A value that a stage makes and another one needs.
  struct Message {
    Tensor value;
    int64_t from = 0, to = 0;
  };
  // Those that leave when this place is done.
  std::vector<Message> messages_after(const Place& place) const;
  // What this place makes that is an output or needed elsewhere.
  std::vector<Tensor> made_at(const Place& place) const;
  // The numbers of the weights (in `weights`) that each stage needs.
  const std::vector<std::vector<size_t>>& weights_of_stages() const { return weights_of_stages_; }

  // What a place computes: the values that others need of it, and the outputs that are made there, with one tensor for
  // each. `known` has what was computed at other places, and weights where they differ from the leaves.
  std::vector<std::pair<Tensor, Tensor>> program(const Place& place, const TensorMap<Tensor>& known) const;

 private:
  struct Placed {
    std::optional<Place> place;   // none: it floats
    std::vector<size_t> weights;  // of what floats: the leaves that it needs
  };
  // Of each node: the latest stage among the homes of what is computed from it.
  std::map<const Node*, int64_t> needs_of(const std::vector<Tensor>& outputs,
                                          const std::vector<std::optional<int64_t>>& homes) const;
  void place_nodes(const std::map<const Node*, int64_t>& needs, const PipelineStages& stages, uint64_t backward_from,
                   const TensorMap<int64_t>& kept);
  void find_uses(const std::vector<Tensor>& outputs, int64_t stages);
  std::optional<Place> place_of(const Tensor& tensor) const;

  Graph graph_;
  std::map<const Node*, Placed> placed_;
  TensorMap<size_t> weight_numbers_;
  std::set<const Node*> delivered_;  // nodes of outputs that have a home
  std::vector<std::optional<Place>> output_places_;
  std::vector<Message> messages_;
  std::vector<Place> message_places_;
  std::vector<std::pair<Place, Tensor>> made_;  // what each place gives
  std::vector<std::vector<size_t>> weights_of_stages_;
};

}  // namespace transom
