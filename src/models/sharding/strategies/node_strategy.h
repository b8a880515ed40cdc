// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/sharding/rewrite/sharded_forms.h"

namespace transom {

enum class Sharded {
  kNo,               // the strategy does not fit the node
  kYes,              // its outputs are stored
  kByDecomposition,  // it is to be sharded as what it is decomposed into
};

// One way to shard nodes of some kind. GraphSharder asks one after the other for each node, in the graph's order.
class NodeStrategy {
 public:
  virtual ~NodeStrategy() = default;
  virtual Sharded shard(const NodePointer& node) = 0;
};

}  // namespace transom
