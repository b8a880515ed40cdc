// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/strategies/sequence_attention.h"

#include <algorithm>

#include "graph/ops/records.h"
#include "graph/passes/graph_builder.h"
#include "models/sharding/strategies/ring_attention.h"
#include "models/sharding/strategies/unseen_keys.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr size_t kPlaces = 1, kHeads = 2;  // dimensions of q, k, v

// One neighbouring piece for each process.
bool is_contiguous(const Cuts& cuts, int64_t extent) {
  return cuts.size() == 1 && cuts[0].units * cuts[0].inner == extent;
}

// The processes that have the pieces of a sequence, and which places these are.
Ring ring_of(const ProcessMesh& mesh, const Cut& rows, const Cut& keys) {
  Ring ring{.axis = rows.axes[0], .process = mesh.coordinate(rows.axes[0]), .queries = {}, .keys = {}};
  for (int64_t i = 0; i < mesh.size(ring.axis); ++i)
    for (const auto& [cut, ranges] : {std::pair(&rows, &ring.queries), std::pair(&keys, &ring.keys)}) {
      const Range units = units_of(mesh, *cut, {i});
      ranges->push_back({units.begin * cut->inner, units.end * cut->inner});
    }
  return ring;
}

}  // namespace

ShardedValue SequenceAttention::brought(const Node& node, const std::vector<ShardedValue>& inputs, size_t i,
                                        const Placement& placement) {
  Placement summed = inputs[i].placement;
  summed.partial = {};
  if (!inputs[i].placement.partial.empty()) forms_.in_form(node.inputs[i], summed);
  return forms_.in_form(node.inputs[i], placement);
}

Sharded SequenceAttention::shard(const NodePointer& node) {
  if (!is_attention(*node)) return Sharded::kNo;
  const ProcessMesh& mesh = forms_.mesh();
  const bool dropped = node->attributes.get_float("dropout") > 0;
  if (dropped && context_ != ContextStrategy::kRing) return Sharded::kNo;
  const auto rule = factor_rule(*node);
  std::vector<ShardedValue> inputs;
  for (const Tensor& input : node->inputs) {
    inputs.push_back(forms_.used(input));
    // Heads are what tp cuts here.
    if (stretches_.on() && inputs.back().placement.dimensions.size() == 4)
      for (const Cut& cut : inputs.back().placement.dimensions[kPlaces])
        if (std::find(cut.axes.begin(), cut.axes.end(), MeshAxis::kTensor) != cut.axes.end()) {
          inputs.back() = stretches_.with_all_places(input, inputs.back());
          break;
        }
  }
  const Placement of_q = inputs[0].placement, of_k = inputs[1].placement;
  const bool backward = node->types.size() > 1;
  Cuts places;
  for (const size_t i : {size_t{0}, size_t{1}, inputs.size() - 1})
    if (places.empty() && (i < 2 || backward)) places = inputs[i].placement.dimensions[kPlaces];
  if (places.empty()) return Sharded::kNo;
  if (context_ == ContextStrategy::kRing && shard_in_ring(node, inputs)) return Sharded::kYes;
  if (dropped) return Sharded::kNo;
  const int64_t T = node->inputs[0].dim(kPlaces), H = node->inputs[0].dim(kHeads), G = node->inputs[1].dim(kHeads);

  // The axes that cut heads already, and behind them those of places.
  const Cuts& heads = of_q.dimensions[kHeads];
  std::vector<MeshAxis> axes;
  if (!heads.empty()) axes = heads[0].axes;
  const bool fits =
      heads.empty() || (heads.size() == 1 && of_k.dimensions[kHeads] == Cuts{make_cut(mesh, axes, G, 1)} &&
                        heads == Cuts{make_cut(mesh, axes, G, H / G)});
  axes.insert(axes.end(), places[0].axes.begin(), places[0].axes.end());
  const Cut of_keys = make_cut(mesh, axes, G, 1), of_queries = make_cut(mesh, axes, G, H / G);
  const bool by_heads =
      context_ == ContextStrategy::kHeads && fits && places.size() == 1 && gives_all_a_part(mesh, of_keys);
  if (by_heads) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool keys = i == 1 || i == 2, cotangent = backward && i + 1 == inputs.size();
      if (i > 2 && !cotangent) continue;
      Placement placement = inputs[i].placement;
      placement.partial = {};
      placement.dimensions[kPlaces].clear();
      placement.dimensions[kHeads] = {keys ? of_keys : of_queries};
      inputs[i] = brought(*node, inputs, i, placement);
    }
  } else {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool queries = i == 0 || (backward && i + 1 == inputs.size());
      Placement placement = inputs[i].placement;
      if (!queries || placement.dimensions[kPlaces].empty() || is_contiguous(placement.dimensions[kPlaces], T))
        continue;
      placement.partial = {};  // which keys a process sees could not be said
      placement.dimensions[kPlaces].clear();
      inputs[i] = brought(*node, inputs, i, placement);
    }
  }
  by_rule_.shard_inputs(node, *rule, std::move(inputs), {});

  // Back to places: what comes next works on them.
  for (size_t i = 0; i < node->types.size(); ++i) {
    const Placement& wanted = i == 0 ? of_q : of_k;
    if (wanted.dimensions[kPlaces].empty()) continue;
    const Tensor output(node, static_cast<int>(i));
    Placement placement = forms_.first(output).placement;
    placement.partial = {};
    placement.dimensions[kPlaces] = wanted.dimensions[kPlaces];
    placement.dimensions[kHeads] = wanted.dimensions[kHeads];
    forms_.replace(output, forms_.resharder().reshard(forms_.first(output), placement));
  }
  return Sharded::kYes;
}

bool SequenceAttention::shard_in_ring(const NodePointer& node, const std::vector<ShardedValue>& inputs) {
  const ProcessMesh& mesh = forms_.mesh();
  const bool backward = node->types.size() > 1, biased = node->attributes.get_int("biased") != 0;
  const Placement of_q = inputs[0].placement, of_k = inputs[1].placement;
  const Cuts &rows = of_q.dimensions[kPlaces], &keys = of_k.dimensions[kPlaces];
  const int64_t T = node->inputs[0].dim(kPlaces), S = node->inputs[1].dim(kPlaces);
  const int64_t H = node->inputs[0].dim(kHeads), G = node->inputs[1].dim(kHeads);
  if (!is_contiguous(rows, T) || !is_contiguous(keys, S) || rows[0].axes != keys[0].axes) return false;
  if (rows[0].axes.size() != 1 || !gives_all_a_part(mesh, rows[0]) || !gives_all_a_part(mesh, keys[0])) return false;
  if (node->attributes.get_int("causal") != 0 && (T != S || rows != keys)) return false;
  // Heads of keys with the queries that share them, or one of all keys.
  const Cuts &heads = of_q.dimensions[kHeads], &key_heads = of_k.dimensions[kHeads];
  const bool alike = heads.empty() ? key_heads.empty()
                                   : heads.size() == 1 && heads == Cuts{make_cut(mesh, heads[0].axes, G, H / G)} &&
                                         key_heads == Cuts{make_cut(mesh, heads[0].axes, G, 1)};
  if (!alike && !(G == 1 && key_heads.empty())) return false;
  // Draws of dropout go by neighbouring rows and heads.
  const bool dropped = node->attributes.get_float("dropout") > 0;
  const auto neighbours = [](const Cuts& cuts, int64_t extent) { return cuts.empty() || is_contiguous(cuts, extent); };
  if (dropped && !(neighbours(of_q.dimensions[0], node->inputs[0].dim(0)) && neighbours(heads, H))) return false;

  const auto placed = [&](const Cuts& places, const Cuts& of_heads) {
    Placement placement = replicated(4);
    placement.dimensions = {of_q.dimensions[0], places, of_heads, {}};
    return placement;
  };
  const Placement for_q = placed(rows, heads), for_k = placed(keys, key_heads);
  const auto bring = [&](size_t i, const Placement& placement) { return brought(*node, inputs, i, placement).local; };
  RingOperands operands{.q = bring(0, for_q), .k = bring(1, for_k), .v = bring(2, for_k), .bias = {}, .options = {}};
  if (biased) {
    Placement placement = placed({}, {});
    const Shape& shape = node->inputs[3].shape();
    placement.dimensions = {of_q.dimensions[0], heads, rows, {}};
    for (size_t i = 0; i < 3; ++i)
      if (shape[i] == 1) placement.dimensions[i].clear();
    operands.bias = bring(3, placement);
  }
  operands.options = {.scale = node->attributes.get_float("scale"),
                      .causal = node->attributes.get_int("causal") != 0,
                      .sliding_window = node->attributes.get_int("sliding_window"),
                      .soft_cap = node->attributes.get_float("soft_cap")};
  const size_t count = (biased ? 4 : 3) + (dropped ? 1 : 0);  // of the forward pass
  const std::vector<Tensor> whole(node->inputs.begin(), node->inputs.begin() + static_cast<long>(count));
  if (dropped) {
    const auto first = [&](const Cuts& cuts) {
      return cuts.empty() ? int64_t{0} : local_units(mesh, cuts[0]).begin * cuts[0].inner;
    };
    operands.dropout = {.key = bring(count - 1, replicated(1)),
                        .probability = node->attributes.get_float("dropout"),
                        .whole = {H, T, S},
                        .at = {first(of_q.dimensions[0]), first(heads), 0, 0}};
  }
  RingAttention attention(forms_.resharder(), ring_of(mesh, rows[0], keys[0]), std::move(operands));
  if (!backward) {
    PartialAttention result = attention.forward();
    ring_results_.insert_or_assign(whole[0], RingResult{whole, node->attributes, for_q, result});
    forms_.store(node, {{result.out, node->types[0].shape, for_q}});
    return true;
  }
  const auto same = [](const Tensor& a, const Tensor& b) { return a.same_as(b); };
  const auto found = ring_results_.find(whole[0]);
  const bool known =
      found != ring_results_.end() && found->second.placement == for_q &&
      found->second.attributes == node->attributes &&
      std::equal(whole.begin(), whole.end(), found->second.inputs.begin(), found->second.inputs.end(), same);
  const Tensor dy = bring(inputs.size() - 1, for_q);
  const PartialAttention result = known ? found->second.result : attention.forward();
  const PartialAttentionGradients made = attention.backward(result, dy);
  Placement of_gradient = for_k;
  if (!alike)
    for (const MeshAxis axis : heads[0].axes) of_gradient.partial.add(axis);
  forms_.store(node, {{made.q, node->types[0].shape, for_q},
                      {made.k, node->types[1].shape, of_gradient},
                      {made.v, node->types[2].shape, of_gradient}});
  return true;
}

}  // namespace transom
