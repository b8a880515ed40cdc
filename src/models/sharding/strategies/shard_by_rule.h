// SPDX-License-Identifier: Apache-2.0
// An operation whose inputs and outputs share dimensions (see factor_rules.h): it is computed of parts that are cut
// alike, in the way that moves the fewest bytes.
#pragma once

#include <vector>

#include "models/sharding/rewrite/sharded_forms.h"
#include "models/sharding/rules/factor_rules.h"
#include "models/sharding/strategies/sequence_stretches.h"

namespace transom {

class ShardByRule {
 public:
  ShardByRule(ShardedForms& forms, SequenceStretches& stretches) : forms_(forms), stretches_(stretches) {}

  void shard(const NodePointer& node, const FactorRule& rule);
  // The same of inputs that are given; what is computed is stored in parts along `stored`.
  void shard_inputs(const NodePointer& node, const FactorRule& rule, std::vector<ShardedValue> inputs, MeshAxes stored);

 private:
  // Inputs of which sums are owed, summed unless the operation is linear in them. The axes that are left.
  MeshAxes settle_sums(const Node& node, std::vector<ShardedValue>& inputs);
  // Where input i goes when it is summed over these axes: into the parts that another input of its shape is cut into.
  Placement where_summed(const Node& node, const std::vector<ShardedValue>& inputs, size_t i, MeshAxes over) const;

  ShardedForms& forms_;
  SequenceStretches& stretches_;
};

}  // namespace transom
