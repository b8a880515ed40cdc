// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/rewrite/cut_sequences.h"

#include <algorithm>

#include "graph/ops/records.h"
#include "graph/passes/graph_builder.h"
#include "models/sharding/rewrite/ring_attention.h"
#include "models/sharding/rewrite/shard_graph.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr size_t kPlaces = 1, kHeads = 2;  // dimensions of q, k, v

bool is_attention(const Node& node) {
  return node.operation == &op::attention || node.operation == &find_operation("attention_gradient");
}

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

void leave_out_unseen_keys(const ProcessMesh& mesh, const Node& node, const Placement& of_queries,
                           std::vector<Tensor>& inputs) {
  if (!is_attention(node) || node.attributes.get_int("causal") == 0) return;
  const Cuts& cuts = of_queries.dimensions[kPlaces];
  if (cuts.empty()) return;
  const int64_t T = node.inputs[0].dim(kPlaces), S = node.inputs[1].dim(kPlaces);
  const int64_t seen = S - T + local_units(mesh, cuts[0]).end * cuts[0].inner;
  for (size_t i = 1; i < 3; ++i) inputs[i] = sliced(inputs[i], kPlaces, 0, seen);
  constexpr size_t kBias = 3;
  if (node.attributes.get_int("biased") && inputs[kBias].dim(3) > 1) inputs[kBias] = sliced(inputs[kBias], 3, 0, seen);
}

void add_unseen_keys(const Node& node, std::vector<Tensor>& outputs) {
  if (outputs.size() != 3 || !is_attention(node)) return;
  for (size_t i = 1; i < 3; ++i)
    if (const int64_t missing = node.types[i].shape[kPlaces] - outputs[i].dim(kPlaces); missing > 0)
      outputs[i] = pad(outputs[i], {0, 0, 0, 0}, {0, missing, 0, 0});
}

bool GraphSharder::shard_attention(const NodePointer& node, Phase phase) {
  if (!is_attention(*node)) return false;
  const bool dropped = node->attributes.get_float("dropout") > 0;
  if (dropped && context_ != ContextStrategy::kRing) return false;
  const auto rule = factor_rule(*node);
  std::vector<ShardedValue> inputs;
  for (const Tensor& input : node->inputs) {
    inputs.push_back(used(input, phase));
    // Heads are what tp cuts here.
    if (cuts_sequences_ && inputs.back().placement.dimensions.size() == 4)
      for (const Cut& cut : inputs.back().placement.dimensions[kPlaces])
        if (std::find(cut.axes.begin(), cut.axes.end(), MeshAxis::kTensor) != cut.axes.end()) {
          inputs.back() = with_all_places(input, inputs.back());
          break;
        }
  }
  const Placement of_q = inputs[0].placement, of_k = inputs[1].placement;
  const bool backward = node->types.size() > 1;
  Cuts places;
  for (const size_t i : {size_t{0}, size_t{1}, inputs.size() - 1})
    if (places.empty() && (i < 2 || backward)) places = inputs[i].placement.dimensions[kPlaces];
  if (places.empty()) return false;
  if (context_ == ContextStrategy::kRing && shard_ring_attention(node, inputs)) return true;
  if (dropped) return false;
  const int64_t T = node->inputs[0].dim(kPlaces), H = node->inputs[0].dim(kHeads), G = node->inputs[1].dim(kHeads);

  // The axes that cut heads already, and behind them those of places.
  const Cuts& heads = of_q.dimensions[kHeads];
  std::vector<MeshAxis> axes;
  if (!heads.empty()) axes = heads[0].axes;
  const bool fits =
      heads.empty() || (heads.size() == 1 && of_k.dimensions[kHeads] == Cuts{make_cut(mesh_, axes, G, 1)} &&
                        heads == Cuts{make_cut(mesh_, axes, G, H / G)});
  axes.insert(axes.end(), places[0].axes.begin(), places[0].axes.end());
  const Cut of_keys = make_cut(mesh_, axes, G, 1), of_queries = make_cut(mesh_, axes, G, H / G);
  const bool by_heads =
      context_ == ContextStrategy::kHeads && fits && places.size() == 1 && gives_all_a_part(mesh_, of_keys);
  const auto bring = [&](size_t i, const Placement& placement) {
    Placement summed = inputs[i].placement;
    summed.partial = {};
    if (!inputs[i].placement.partial.empty()) inputs[i] = in_form(node->inputs[i], summed);
    inputs[i] = in_form(node->inputs[i], placement);
  };
  if (by_heads) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool keys = i == 1 || i == 2, cotangent = backward && i + 1 == inputs.size();
      if (i > 2 && !cotangent) continue;
      Placement placement = inputs[i].placement;
      placement.partial = {};
      placement.dimensions[kPlaces].clear();
      placement.dimensions[kHeads] = {keys ? of_keys : of_queries};
      bring(i, placement);
    }
  } else {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool queries = i == 0 || (backward && i + 1 == inputs.size());
      Placement placement = inputs[i].placement;
      if (!queries || placement.dimensions[kPlaces].empty() || is_contiguous(placement.dimensions[kPlaces], T))
        continue;
      placement.partial = {};  // which keys a process sees could not be said
      placement.dimensions[kPlaces].clear();
      bring(i, placement);
    }
  }
  shard_inputs_by_rule(node, *rule, std::move(inputs), {});

  // Back to places: what comes next works on them.
  for (size_t i = 0; i < node->types.size(); ++i) {
    const Placement& wanted = i == 0 ? of_q : of_k;
    if (wanted.dimensions[kPlaces].empty()) continue;
    const Tensor output(node, static_cast<int>(i));
    Placement placement = forms_of(output).values.front().placement;
    placement.partial = {};
    placement.dimensions[kPlaces] = wanted.dimensions[kPlaces];
    placement.dimensions[kHeads] = wanted.dimensions[kHeads];
    ShardedValue value = resharder_.reshard(forms_of(output).values.front(), placement);
    forms_of(output).values = {std::move(value)};
  }
  return true;
}

bool GraphSharder::shard_ring_attention(const NodePointer& node, std::vector<ShardedValue>& inputs) {
  const bool backward = node->types.size() > 1, biased = node->attributes.get_int("biased") != 0;
  const Placement of_q = inputs[0].placement, of_k = inputs[1].placement;
  const Cuts &rows = of_q.dimensions[kPlaces], &keys = of_k.dimensions[kPlaces];
  const int64_t T = node->inputs[0].dim(kPlaces), S = node->inputs[1].dim(kPlaces);
  const int64_t H = node->inputs[0].dim(kHeads), G = node->inputs[1].dim(kHeads);
  if (!is_contiguous(rows, T) || !is_contiguous(keys, S) || rows[0].axes != keys[0].axes) return false;
  if (rows[0].axes.size() != 1 || !gives_all_a_part(mesh_, rows[0]) || !gives_all_a_part(mesh_, keys[0])) return false;
  if (node->attributes.get_int("causal") != 0 && (T != S || rows != keys)) return false;
  // Heads of keys with the queries that share them, or one of all keys.
  const Cuts &heads = of_q.dimensions[kHeads], &key_heads = of_k.dimensions[kHeads];
  const bool alike = heads.empty() ? key_heads.empty()
                                   : heads.size() == 1 && heads == Cuts{make_cut(mesh_, heads[0].axes, G, H / G)} &&
                                         key_heads == Cuts{make_cut(mesh_, heads[0].axes, G, 1)};
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
  const auto bring = [&](size_t i, const Placement& placement) {
    Placement summed = inputs[i].placement;
    summed.partial = {};
    if (!inputs[i].placement.partial.empty()) inputs[i] = in_form(node->inputs[i], summed);
    return in_form(node->inputs[i], placement).local;
  };
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
      return cuts.empty() ? int64_t{0} : local_units(mesh_, cuts[0]).begin * cuts[0].inner;
    };
    operands.dropout = {.key = bring(count - 1, replicated(1)),
                        .probability = node->attributes.get_float("dropout"),
                        .whole = {H, T, S},
                        .at = {first(of_q.dimensions[0]), first(heads), 0, 0}};
  }
  RingAttention attention(resharder_, ring_of(mesh_, rows[0], keys[0]), std::move(operands));
  if (!backward) {
    PartialAttention result = attention.forward();
    ring_results_.insert_or_assign(whole[0], RingResult{whole, node->attributes, for_q, result});
    store(node, {{result.out, node->types[0].shape, for_q}});
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
  store(node, {{made.q, node->types[0].shape, for_q},
               {made.k, node->types[1].shape, of_gradient},
               {made.v, node->types[2].shape, of_gradient}});
  return true;
}

}  // namespace transom
