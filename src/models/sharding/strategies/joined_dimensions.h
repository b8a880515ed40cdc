// SPDX-License-Identifier: Apache-2.0
// Layers that stand joined in one, as those of queries, keys and values do: of each of them a process has its part, and
// so of what is sliced from their common result. The gradient of a slice is padded to where it was sliced from.
#pragma once

#include <map>
#include <vector>

#include "models/sharding/strategies/node_strategy.h"

namespace transom {

// Slices of a dimension in which several stand joined, and their gradients.
class JoinedDimensions : public NodeStrategy {
 public:
  explicit JoinedDimensions(ShardedForms& forms) : forms_(forms) {}

  Sharded shard(const NodePointer& node) override;

 private:
  bool slice_joined(const NodePointer& node);
  bool pad_joined(const NodePointer& node);

  ShardedForms& forms_;
  // What was sliced, by shape and place: how it is cut. Gradients go back to there.
  std::map<std::vector<int64_t>, std::vector<Cuts>> sliced_;
};

}  // namespace transom
