// SPDX-License-Identifier: Apache-2.0
// Causal attention over a part of the queries, which does not see the last keys.
#pragma once

#include <vector>

#include "graph/ir/node.h"
#include "models/sharding/placement.h"

namespace transom {

// Attention or its gradient.
bool is_attention(const Node& node);

// Causal attention, and its gradient, of a part of the queries: without the keys behind them. `inputs` are the parts of
// this process, the queries where `of_queries` says, keys and values whole.
void leave_out_unseen_keys(const ProcessMesh& mesh, const Node& node, const Placement& of_queries,
                           std::vector<Tensor>& inputs);
// Zeros for the keys that were left out, where `outputs` are gradients.
void add_unseen_keys(const Node& node, std::vector<Tensor>& outputs);

}  // namespace transom
