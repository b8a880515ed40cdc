// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/strategies/unseen_keys.h"

#include "graph/ops/records.h"
#include "models/sharding/rewrite/reshard.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr size_t kQueryPlaces = 1;  // dimension of q, k, v

}  // namespace

bool is_attention(const Node& node) {
  return node.operation == &op::attention || node.operation == &find_operation("attention_gradient");
}

void leave_out_unseen_keys(const ProcessMesh& mesh, const Node& node, const Placement& of_queries,
                           std::vector<Tensor>& inputs) {
  if (!is_attention(node) || node.attributes.get_int("causal") == 0) return;
  const Cuts& cuts = of_queries.dimensions[kQueryPlaces];
  if (cuts.empty()) return;
  const int64_t T = node.inputs[0].dim(kQueryPlaces), S = node.inputs[1].dim(kQueryPlaces);
  const int64_t seen = S - T + local_units(mesh, cuts[0]).end * cuts[0].inner;
  for (size_t i = 1; i < 3; ++i) inputs[i] = sliced(inputs[i], kQueryPlaces, 0, seen);
  constexpr size_t kBias = 3;
  if (node.attributes.get_int("biased") && inputs[kBias].dim(3) > 1) inputs[kBias] = sliced(inputs[kBias], 3, 0, seen);
}

void add_unseen_keys(const Node& node, std::vector<Tensor>& outputs) {
  if (outputs.size() != 3 || !is_attention(node)) return;
  for (size_t i = 1; i < 3; ++i)
    if (const int64_t missing = node.types[i].shape[kQueryPlaces] - outputs[i].dim(kQueryPlaces); missing > 0)
      outputs[i] = pad(outputs[i], {0, 0, 0, 0}, {0, missing, 0, 0});
}

}  // namespace transom
