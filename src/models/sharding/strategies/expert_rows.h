// SPDX-License-Identifier: Apache-2.0
// Products by group where each process along the axis ep has the weights of some groups (experts): rows travel to the
// weights and back by all_to_all, in places for as many rows as one process can have for another, so that none is
// dropped and shapes do not depend on data (Lepikhin et al., "GShard", 2021, without its capacity). Where all processes
// have all rows, as in inference, nothing travels: each computes the rows of its groups, and results are summed. What
// is computed of rows element by element stays with the experts until it is needed elsewhere.
#pragma once

#include "graph/ir/tensor_map.h"
#include "models/sharding/strategies/node_strategy.h"

namespace transom {

class ExpertRows : public NodeStrategy {
 public:
  explicit ExpertRows(ShardedForms& forms) : forms_(forms) {}

  Sharded shard(const NodePointer& node) override;

 private:
  // Of a tensor of groups: which rows go where.
  struct Route {
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

  bool shard_product(const NodePointer& node);
  bool shard_by_elements(const NodePointer& node);
  void shard_weight_gradient(const NodePointer& node);
  const Route& route_of(const Tensor& groups, int64_t weights);
  // The rows of x that this process has weights for, [R, W], their last dimension cut so.
  ShardedValue with_experts(const Tensor& x, const Tensor& groups, const Cuts& width);
  void leave_with_experts(const Tensor& output, const Tensor& groups, ShardedValue value);
  ShardedValue brought_home(const Tensor& tensor);

  ShardedForms& forms_;
  TensorMap<Route> routes_;
  TensorMap<WithExperts> with_experts_;
};

}  // namespace transom
