// SPDX-License-Identifier: Apache-2.0
// A layer that joins queries, keys and values, cut by heads: the values and gradients of the whole, and what travels.
#include <gtest/gtest.h>

#include "models/sharding/rewrite/part_places.h"
#include "simulated_mesh.h"
#include "transom/gradients.h"

namespace transom {
namespace {

constexpr int64_t kJoinedBatch = 4, kJoinedPlaces = 5, kJoinedWidth = 6, kHeadWidth = 4;

struct JoinedLayerCase {
  const char* name;
  int64_t queries, keys;  // heads
  ProcessMesh::Sizes sizes;
  bool slices_heads;  // behind a reshape to heads; else before it
};

// The cut of what joins queries, keys and values.
Cut cut_of(const ProcessMesh& mesh, const JoinedLayerCase& test) {
  const int64_t group = test.queries / test.keys;
  if (test.keys < mesh.size(MeshAxis::kTensor))
    return make_joined_cut(mesh, {MeshAxis::kTensor}, {{test.queries, kHeadWidth}, {kHeadWidth, 1}, {kHeadWidth, 1}});
  return make_joined_cut(mesh, {MeshAxis::kTensor},
                         {{test.keys, group * kHeadWidth}, {test.keys, kHeadWidth}, {test.keys, kHeadWidth}});
}

class JoinedDimensions : public testing::TestWithParam<JoinedLayerCase> {
 protected:
  const int64_t Q = GetParam().queries * kHeadWidth, K = GetParam().keys * kHeadWidth;
  const Tensor x = drawn_values({kJoinedBatch, kJoinedPlaces, kJoinedWidth}, 1);
  Tensor w = drawn_values({Q + 2 * K, kJoinedWidth}, 2), b = drawn_values({Q + 2 * K}, 3),
         o = drawn_values({kJoinedWidth, Q}, 4);

  std::vector<Tensor> outputs(StepPhases& phases) {
    for (Tensor* leaf : {&w, &b, &o}) leaf->set_requires_grad();
    const JoinedLayerCase& test = GetParam();
    const Tensor all = linear(x, w, b);
    const auto part = [&](int64_t begin, int64_t heads) {
      if (!test.slices_heads)
        return reshape(slice(all, 2, begin * kHeadWidth, (begin + heads) * kHeadWidth),
                       {kJoinedBatch, kJoinedPlaces, heads, kHeadWidth});
      return slice(reshape(all, {kJoinedBatch, kJoinedPlaces, test.queries + 2 * test.keys, kHeadWidth}), 2, begin,
                   begin + heads);
    };
    const Tensor mixed = attention(part(0, test.queries), part(test.queries, test.keys),
                                   part(test.queries + test.keys, test.keys), {}, {.scale = 0.5, .causal = true});
    const Tensor y = linear(reshape(mixed, {kJoinedBatch, kJoinedPlaces, Q}), o) + x;
    const Tensor loss = sum(y * y);
    phases.backward_from = make_input({}).node()->sequence;
    std::vector<Tensor> results{loss};
    for (const Tensor& gradient : gradients(loss, {w, b, o})) results.push_back(gradient);
    return results;
  }
};

TEST_P(JoinedDimensions, HaveTheValuesAndGradientsOfTheWhole) {
  const JoinedLayerCase& test = GetParam();
  StepPhases phases;
  const std::vector<Tensor> expected = outputs(phases);
  const bool stores = test.sizes[static_cast<size_t>(MeshAxis::kShard)] > 1;
  const MeshAxes stored = stores ? MeshAxes{MeshAxis::kShard} : MeshAxes();
  const LeavesOf leaves = [&](const ProcessMesh& mesh) -> std::vector<PlacedLeaf> {
    const auto placed = [&](const Tensor& leaf, size_t dimension, const Cut& cut) {
      Placement placement = replicated(leaf.shape().size());
      placement.dimensions[dimension] = {cut};
      if (stores) placement = cut_further(mesh, placement, leaf.shape(), 0, MeshAxis::kShard);
      return PlacedLeaf{leaf, placement, stored};
    };
    Placement rows = replicated(3);
    for (const MeshAxis axis : {MeshAxis::kData, MeshAxis::kShard})
      if (mesh.size(axis) > 1) rows = cut_further(mesh, rows, x.shape(), 0, axis);
    const bool shares = test.keys < mesh.size(MeshAxis::kTensor);
    const int64_t units = shares ? test.queries : test.keys;
    return {{x, rows},
            placed(w, 0, cut_of(mesh, test)),
            placed(b, 0, cut_of(mesh, test)),
            placed(o, 1, make_cut(mesh, {MeshAxis::kTensor}, units, Q / units))};
  };
  std::vector<CollectiveRecord> records;
  StepPhases traced;
  const std::vector<Tensor> again = outputs(traced);
  const auto results = run_sharded(test.sizes, leaves, again, traced, &records);
  ASSERT_FALSE(results.empty());
  for (const auto& of_rank : results)
    for (size_t i = 0; i < of_rank.size(); ++i) EXPECT_LE(largest_difference(of_rank[i], expected[i]), 1e-5) << i;
  if (stores || test.keys < test.sizes[static_cast<size_t>(MeshAxis::kTensor)]) return;
  // One sum over tp forward. At the end the three gradients are asked for whole: what joins unlike parts, part by part.
  const auto count = [&](const char* kind) {
    return std::count_if(records.begin(), records.end(), [&](const CollectiveRecord& record) {
      return record.kind == kind && record.axes == MeshAxes{MeshAxis::kTensor};
    });
  };
  EXPECT_EQ(count("all_reduce") + count("reduce_scatter"), 1);
  EXPECT_EQ(count("all_to_all"), 0);
  EXPECT_EQ(count("all_gather"), test.queries == test.keys ? 3 : 7);
}

constexpr ProcessMesh::Sizes kTensorOfTwo = {1, 1, 1, 1, 1, 2}, kTensorOfThree = {1, 1, 1, 1, 1, 3},
                             kRowsAndTwo = {1, 2, 1, 1, 1, 2}, kShardsAndTwo = {1, 1, 2, 1, 1, 2};
INSTANTIATE_TEST_SUITE_P(Layers, JoinedDimensions,
                         testing::Values(JoinedLayerCase{"Equal", 4, 4, kTensorOfTwo, false},
                                         JoinedLayerCase{"Uneven", 3, 3, kTensorOfTwo, false},
                                         JoinedLayerCase{"Grouped", 4, 2, kTensorOfTwo, true},
                                         JoinedLayerCase{"GroupedBeforeHeads", 4, 2, kTensorOfTwo, false},
                                         JoinedLayerCase{"UnevenGroups", 10, 5, kTensorOfThree, true},
                                         JoinedLayerCase{"GroupedAndRows", 6, 3, kRowsAndTwo, true},
                                         JoinedLayerCase{"EqualInShards", 4, 4, kShardsAndTwo, false},
                                         JoinedLayerCase{"GroupedInShards", 8, 4, kShardsAndTwo, true},
                                         JoinedLayerCase{"UnevenGroupsInShards", 10, 5, kShardsAndTwo, true},
                                         JoinedLayerCase{"OneKey", 3, 1, kTensorOfTwo, false},
                                         JoinedLayerCase{"OneKeyInShards", 4, 1, kShardsAndTwo, false}),
                         [](const auto& info) { return info.param.name; });

// Between every two of these placements, along one dimension or another.
TEST(JoinedPlacements, AreReachedFromEachOther) {
  const Tensor x = drawn_values({6, 20}, 5);
  const auto placements = [&](const ProcessMesh& mesh) {
    std::vector<Placement> all(6, replicated(2));
    all[1].dimensions[1] = {make_joined_cut(mesh, {MeshAxis::kTensor}, {{3, 4}, {4, 1}, {4, 1}})};
    all[2].dimensions[1] = {make_joined_cut(mesh, {MeshAxis::kTensor}, {{2, 5}, {2, 3}, {2, 2}})};
    all[3].dimensions[1] = {make_cut(mesh, {MeshAxis::kTensor}, 4, 5)};
    all[4].dimensions[0] = {make_cut(mesh, {MeshAxis::kTensor}, 6, 1)};
    all[5].partial.add(MeshAxis::kTensor);
    const size_t plain = all.size();
    for (size_t i = 0; i < plain; ++i) {
      Placement further = cut_further(mesh, all[i], x.shape(), 1, MeshAxis::kShard);
      if (!(further == all[i])) all.push_back(further);
    }
    return all;
  };
  const ProcessMesh::Sizes sizes{1, 1, 2, 1, 1, 2};
  const size_t count = placements(ProcessMesh(sizes, 0, 4)).size();
  for (size_t from = 0; from < count; ++from)
    for (size_t to = 0; to < count; ++to) {
      std::vector<std::vector<Tensor>> locals;
      for (int64_t rank = 0; rank < 4; ++rank) {
        const ProcessMesh mesh(sizes, rank, 4);
        Resharder resharder(mesh);
        const ShardedValue begun = resharder.reshard({x, x.shape(), replicated(2)}, placements(mesh)[from]);
        const ShardedValue moved = resharder.reshard(begun, placements(mesh)[to]);
        EXPECT_EQ(moved.placement, placements(mesh)[to]);
        EXPECT_EQ(moved.local.shape(), local_shape(mesh, moved.placement, x.shape()));
        locals.push_back({resharder.reshard(moved, replicated(2)).local});
      }
      for (const auto& of_rank : run_together(locals)) EXPECT_EQ(largest_difference(of_rank[0], x), 0) << from << to;
    }
}

}  // namespace
}  // namespace transom
