// SPDX-License-Identifier: Apache-2.0
// All processes of a mesh in one: their graphs side by side, with what they exchange computed here.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/tensor_map.h"
#include "models/sharding/sharded_tensors.h"
#include "transom/ops.h"

namespace transom {

// Between -1 and 1.
inline Tensor drawn_values(const Shape& shape, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<float> values(static_cast<size_t>(elements(shape)));
  for (float& value : values) value = static_cast<float>(generator() >> 40) / 0x1p23F - 1.0F;
  return Tensor::from(values, shape);
}

// Lays the graphs of all ranks over one another: outputs[r] are those of rank r.
inline std::vector<std::vector<Tensor>> run_together(const std::vector<std::vector<Tensor>>& outputs) {
  const size_t ranks = outputs.size();
  std::vector<Graph> graphs;
  for (const auto& each : outputs) graphs.push_back(make_graph(each));
  std::vector<TensorMap<Tensor>> done(ranks);
  std::vector<size_t> next(ranks);
  const auto input_of = [&](size_t r, const Tensor& tensor) {
    const auto found = done[r].find(tensor);
    return found == done[r].end() ? tensor : found->second;
  };
  while (true) {
    std::vector<const Node*> meeting(ranks);
    std::vector<std::shared_ptr<Node>> nodes(ranks);
    for (size_t r = 0; r < ranks; ++r)
      for (; next[r] < graphs[r].nodes.size(); ++next[r]) {
        const std::shared_ptr<Node>& node = graphs[r].nodes[next[r]];
        if (node->operation->collective) {
          meeting[r] = node.get();
          nodes[r] = node;
          ++next[r];
          break;
        }
        std::vector<Tensor> inputs;
        for (const Tensor& input : node->inputs) inputs.push_back(input_of(r, input));
        const auto copy = make_node(*node->operation, std::move(inputs), node->attributes, node->region);
        for (size_t i = 0; i < copy->types.size(); ++i)
          done[r].emplace(Tensor(node, static_cast<int>(i)), Tensor(copy, static_cast<int>(i)));
      }
    if (std::none_of(meeting.begin(), meeting.end(), [](const Node* node) { return node != nullptr; })) break;
    for (size_t r = 0; r < ranks; ++r) {
      EXPECT_TRUE(meeting[r]) << "rank " << r << " takes no part in a collective";
      if (!meeting[r]) return {};
      EXPECT_EQ(meeting[r]->attributes.get_int("order"), meeting[0]->attributes.get_int("order"));
      EXPECT_EQ(meeting[r]->operation, meeting[0]->operation);
    }
    for (size_t r = 0; r < ranks; ++r) {
      const Node& node = *meeting[r];
      std::vector<int64_t> group;
      if (node.attributes.has("group")) group = node.attributes.get_ints("group");
      else
        for (size_t i = 0; i < ranks; ++i) group.push_back(static_cast<int64_t>(i));
      std::vector<Tensor> parts;
      size_t place = 0;
      for (size_t i = 0; i < group.size(); ++i) {
        const auto member = static_cast<size_t>(group[i]);
        if (member == r) place = i;
        parts.push_back(input_of(member, meeting[member]->inputs[0]));
        if (node.operation->name != "collective_permute") {
          EXPECT_EQ(parts[i].shape(), parts[0].shape());
        }
      }
      const auto n = static_cast<int64_t>(group.size()), mine = static_cast<int64_t>(place);
      const std::string_view kind = node.operation->name;
      const auto part = [&](const Tensor& x, int64_t i) {
        return slice(x, 0, i * x.dim(0) / n, (i + 1) * x.dim(0) / n);
      };
      Tensor result;
      if (kind == "all_gather") {
        result = concatenate(parts, 0);
      } else if (kind == "collective_permute") {
        const int64_t shift = node.attributes.get_int("shift");
        result = parts[static_cast<size_t>((mine + n - shift) % n)];
        EXPECT_EQ(result.type(), node.types[0]);
      } else if (kind == "all_to_all") {
        std::vector<Tensor> got;
        for (const Tensor& each : parts) got.push_back(part(each, mine));
        result = concatenate(got, 0);
      } else {
        for (const Tensor& each : parts) result = result.defined() ? result + each : each;
        if (kind == "reduce_scatter") result = part(result, mine);
      }
      done[r].emplace(Tensor(nodes[r], 0), result);
    }
  }
  std::vector<std::vector<Tensor>> results(ranks);
  for (size_t r = 0; r < ranks; ++r)
    for (const Tensor& output : outputs[r]) results[r].push_back(input_of(r, output));
  return results;
}

// What each rank of the mesh makes of `outputs`, its leaves being placed as given; whole on every rank.
struct PlacedLeaf {
  Tensor leaf;
  Placement placement;
  MeshAxes stored = {};
};
using LeavesOf = std::function<std::vector<PlacedLeaf>(const ProcessMesh&)>;
inline std::vector<std::vector<Tensor>> run_sharded(const ProcessMesh::Sizes& sizes, const LeavesOf& leaves,
                                                    const std::vector<Tensor>& outputs, StepPhases phases = {},
                                                    std::vector<CollectiveRecord>* records = nullptr,
                                                    ContextStrategy context = ContextStrategy::kHeads,
                                                    bool sequence_parallel = false) {
  int64_t ranks = 1;
  for (const int64_t size : sizes) ranks *= size;
  std::vector<std::vector<Tensor>> locals;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const ProcessMesh mesh(sizes, rank, ranks);
    ShardedTensors tensors(mesh);
    GraphSharder sharder(mesh, phases, false, context);
    sharder.cut_sequences_along_tensor_axis(sequence_parallel);
    for (const PlacedLeaf& leaf : leaves(mesh)) {
      const Tensor held = tensors.hold_part_of(leaf.leaf, leaf.placement, leaf.stored);
      sharder.place(leaf.leaf, tensors.value(held), leaf.stored);
    }
    sharder.shard(outputs);
    std::vector<Tensor> mine;
    for (const Tensor& output : outputs) mine.push_back(sharder.value(output, replicated(output.shape().size())).local);
    order_collectives(mine);
    locals.push_back(std::move(mine));
    if (records) *records = sharder.collectives();
  }
  return run_together(locals);
}

inline double largest_difference(const Tensor& x, const Tensor& y) {
  EXPECT_EQ(x.type(), y.type());
  const std::vector<double> a = x.to_vector<double>(), b = y.to_vector<double>();
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]) / (1 + std::abs(b[i])));
  return largest;
}

}  // namespace transom
