// SPDX-License-Identifier: Apache-2.0
// Operations along a dimension of which each process has a part: maxima, rows of classes (the vocabulary-parallel cross
// entropy of Shoeybi et al., "Megatron-LM", 2019, which falls out of its decomposition), and lookups in tables whose
// rows are spread.
#pragma once

#include "models/sharding/strategies/node_strategy.h"

namespace transom {

class CutDimensions : public NodeStrategy {
 public:
  explicit CutDimensions(ShardedForms& forms) : forms_(forms) {}

  // kNo where the dimension is whole.
  Sharded shard(const NodePointer& node) override;

 private:
  void reduce_parts(const NodePointer& node, const ShardedValue& x);
  void look_up_in_parts(const NodePointer& node, const ShardedValue& table);
  void add_to_parts(const NodePointer& node, const ShardedValue& x);

  ShardedForms& forms_;
};

}  // namespace transom
