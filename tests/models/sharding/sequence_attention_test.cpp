// SPDX-License-Identifier: Apache-2.0
// Attention over sequences of which each process has some places: the values of the whole, and what travels for them.
#include "models/sharding/strategies/sequence_attention.h"

#include <algorithm>

#include "graph/passes/partition.h"
#include "simulated_mesh.h"
#include "transom/gradients.h"

namespace transom {
namespace {

constexpr MeshAxis kContext = MeshAxis::kContext, kTensor = MeshAxis::kTensor;

struct SequenceCase {
  const char* name;
  int64_t context, tensor;  // processes
  int64_t T, S, H, G;
  AttentionOptions options;
  ContextStrategy strategy;
  bool biased = false;
  int64_t exchanges = 0;  // all_to_all of a forward and a backward pass
  bool goes_round = false;
  double dropout = 0;
};

class CutSequences : public testing::TestWithParam<SequenceCase> {};

TEST_P(CutSequences, HaveTheAttentionOfTheWhole) {
  const SequenceCase& test = GetParam();
  constexpr int64_t B = 2, d = 4;
  const Tensor q = drawn_values({B, test.T, test.H, d}, 1), k = drawn_values({B, test.S, test.G, d}, 2),
               v = drawn_values({B, test.S, test.G, d}, 3), weight = drawn_values({B, test.T, test.H, d}, 4),
               bias = test.biased ? drawn_values({B, 1, 1, test.S}, 5) : Tensor(),
               key = Tensor::from(std::vector<int64_t>{42, 3}, {2});
  for (const Tensor* leaf : {&q, &k, &v}) Tensor(*leaf).set_requires_grad();
  const auto outputs = [&] {
    const Tensor y = attention(q, k, v, bias, test.options, {}, key, test.dropout);
    std::vector<Tensor> all{y};
    for (const Tensor& gradient : gradients(sum(y * weight), {q, k, v})) all.push_back(gradient);
    return all;
  };
  const std::vector<Tensor> expected = outputs();
  const LeavesOf leaves = [&](const ProcessMesh& mesh) {
    std::vector<PlacedLeaf> placed;
    for (const Tensor& leaf : {q, k, v, weight}) {
      Placement placement = cut_further(mesh, replicated(4), leaf.shape(), 1, kContext);
      if (test.tensor > 1) {
        // Whole groups of heads, as the weights of a layer cut them.
        const int64_t heads = leaf.dim(2);
        placement.dimensions[2] = {make_cut(mesh, {kTensor}, test.G, heads / test.G)};
      }
      placed.push_back({leaf, placement});
    }
    if (test.biased) placed.push_back({bias, cut_further(mesh, replicated(4), bias.shape(), 3, kContext)});
    return placed;
  };
  ProcessMesh::Sizes sizes{1, 1, 1, test.context, 1, test.tensor};
  std::vector<CollectiveRecord> records;
  const auto results = run_sharded(sizes, leaves, outputs(), {}, &records, test.strategy);
  ASSERT_FALSE(results.empty());
  for (const auto& of_rank : results)
    for (size_t i = 0; i < of_rank.size(); ++i) EXPECT_LE(largest_difference(of_rank[i], expected[i]), 1e-5) << i;
  const auto exchanges =
      std::count_if(records.begin(), records.end(), [](const auto& each) { return each.kind == "all_to_all"; });
  EXPECT_EQ(exchanges, test.exchanges);
  const auto is_message = [](const auto& each) { return each.kind == "collective_permute"; };
  EXPECT_EQ(std::any_of(records.begin(), records.end(), is_message), test.goes_round);
  if (!test.goes_round) return;
  // Nothing is gathered but what is compared here, and the bias: no process has all keys.
  const auto gathers =
      std::count_if(records.begin(), records.end(), [](const auto& each) { return each.kind == "all_gather"; });
  EXPECT_EQ(gathers, 4 * (test.tensor > 1 ? 2 : 1) + (test.biased ? 1 : 0));
}

constexpr AttentionOptions kCausal{.scale = 0.5}, kOpen{.scale = 0.5, .causal = false},
    kWindow{.scale = 0.5, .sliding_window = 3}, kCapped{.scale = 0.5, .soft_cap = 2.0};
constexpr ContextStrategy kByHeads = ContextStrategy::kHeads, kByKeys = ContextStrategy::kKeys,
                          kInRing = ContextStrategy::kRing;

// Each of q, k, v and the result forward; of the cotangent and the three gradients backward.
INSTANTIATE_TEST_SUITE_P(
    Strategies, CutSequences,
    testing::Values(SequenceCase{"HeadsEven", 2, 1, 8, 8, 4, 2, kCausal, kByHeads, false, 8},
                    SequenceCase{"HeadsUneven", 3, 1, 10, 10, 5, 5, kCausal, kByHeads, false, 8},
                    SequenceCase{"HeadsOfTensorParallel", 2, 2, 7, 7, 8, 4, kCausal, kByHeads, true, 8},
                    SequenceCase{"HeadsUnevenOfTensorParallel", 2, 2, 6, 6, 10, 5, kOpen, kByHeads, false, 8},
                    SequenceCase{"HeadsOfTwoSequences", 2, 1, 5, 9, 4, 4, kOpen, kByHeads, true, 8},
                    SequenceCase{"TooFewHeads", 3, 1, 9, 9, 4, 2, kCausal, kByHeads, true, 0},
                    SequenceCase{"Keys", 2, 1, 9, 9, 4, 2, kCausal, kByKeys, false, 0},
                    SequenceCase{"KeysBiased", 4, 1, 9, 9, 2, 1, kCausal, kByKeys, true, 0},
                    SequenceCase{"KeysOfWindow", 2, 2, 12, 12, 4, 2, kWindow, kByKeys, false, 0},
                    SequenceCase{"KeysOfLongerCache", 2, 1, 4, 7, 2, 2, kCausal, kByKeys, false, 0},
                    SequenceCase{"KeysOpen", 2, 1, 5, 9, 2, 2, kOpen, kByKeys, true, 0},
                    // Two processes, where each shares the queries of the other; odd and even numbers of them.
                    SequenceCase{"RingOfTwo", 2, 1, 8, 8, 4, 2, kCausal, kInRing, false, 0, true},
                    SequenceCase{"RingUneven", 3, 1, 11, 11, 4, 2, kCausal, kInRing, true, 0, true},
                    SequenceCase{"RingOfFour", 4, 1, 14, 14, 2, 1, kCausal, kInRing, true, 0, true},
                    SequenceCase{"RingOfFive", 5, 1, 12, 12, 2, 2, kCapped, kInRing, false, 0, true},
                    SequenceCase{"RingOfSinglePlaces", 6, 1, 6, 6, 2, 2, kCausal, kInRing, false, 0, true},
                    SequenceCase{"RingOpen", 3, 1, 10, 10, 4, 2, kOpen, kInRing, true, 0, true},
                    SequenceCase{"RingOfTwoSequences", 2, 1, 5, 9, 4, 4, kOpen, kInRing, true, 0, true},
                    SequenceCase{"RingOfWindow", 4, 1, 13, 13, 2, 2, kWindow, kInRing, false, 0, true},
                    SequenceCase{"RingOfTensorParallel", 2, 2, 9, 9, 8, 4, kCausal, kInRing, true, 0, true},
                    SequenceCase{"RingOfDropout", 3, 1, 10, 10, 4, 2, kCausal, kInRing, true, 0, true, 0.3},
                    SequenceCase{"RingOfDropoutAndTensor", 2, 2, 9, 9, 8, 4, kOpen, kInRing, false, 0, true, 0.3},
                    SequenceCase{"RingOfLongerCache", 2, 1, 4, 7, 2, 2, kCausal, kInRing, false, 0, false}),
    [](const auto& info) { return info.param.name; });

// A message is on its way while the keys of the one before it are used, and no further one.
TEST(RingAttentionOrder, OneStretchIsAhead) {
  constexpr int64_t kRanks = 4, kSteps = kRanks - 1;
  const ProcessMesh mesh({1, 1, 1, kRanks, 1, 1}, 2, kRanks);
  ShardedTensors tensors(mesh);
  GraphSharder sharder(mesh, {}, false, ContextStrategy::kRing);
  std::vector<Tensor> leaves;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    leaves.push_back(drawn_values({1, 16, 2, 4}, seed));
    const Placement placement = cut_further(mesh, replicated(4), leaves.back().shape(), 1, kContext);
    sharder.place(leaves.back(), tensors.value(tensors.hold_part_of(leaves.back(), placement)));
  }
  const Tensor y = attention(leaves[0], leaves[1], leaves[2], {}, kOpen);
  sharder.shard({y});
  int64_t computed = 0, started = 0;
  for (const Partition& partition : partition_graph(make_graph({sharder.value(y).local}))) {
    for (const std::shared_ptr<Node>& node : partition.nodes) {
      if (node->operation->name != "partial_attention") continue;
      EXPECT_EQ(started, std::min(computed + 1, kSteps)) << "stretch " << computed;
      ++computed;
    }
    if (partition.collective) ++started;
  }
  EXPECT_EQ(computed, kRanks);
  EXPECT_EQ(started, kSteps);
}

}  // namespace
}  // namespace transom
