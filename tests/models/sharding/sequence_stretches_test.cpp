// SPDX-License-Identifier: Apache-2.0
// Sequence parallel: the values of the whole, where sums over tp go, and what is held for the backward pass.
#include <gtest/gtest.h>

#include <algorithm>

#include "simulated_mesh.h"
#include "transom/gradients.h"

namespace transom {
namespace {

constexpr MeshAxis kContextAxis = MeshAxis::kContext, kTensorAxis = MeshAxis::kTensor;

struct StretchCase {
  const char* name;
  int64_t tensor, context, S;
};

// A block of a transformer without attention: tokens, dropout, a norm, columns and rows, a residual, a head of columns.
struct Block {
  static constexpr int64_t kBatch = 2, kWidth = 6, kInner = 12, kTokens = 12;
  int64_t S;
  Tensor ids, table, scale, up, down, bias, head, weight, key = Tensor::from(std::vector<int64_t>{7, 1}, {2});

  explicit Block(int64_t places) : S(places) {
    std::vector<int64_t> tokens;
    for (int64_t i = 0; i < kBatch * S; ++i) tokens.push_back(i * 7 % kTokens);
    ids = Tensor::from(tokens, {kBatch, S});
    table = drawn_values({kTokens, kWidth}, 1), scale = drawn_values({kWidth}, 2),
    up = drawn_values({kInner, kWidth}, 3);
    down = drawn_values({kWidth, kInner}, 4), bias = drawn_values({kWidth}, 5),
    head = drawn_values({kTokens, kWidth}, 6);
    weight = drawn_values({kBatch, S, kTokens}, 7);
    for (Tensor* leaf : {&table, &scale, &up, &down, &bias, &head}) leaf->set_requires_grad();
  }
  std::vector<Tensor> outputs(StepPhases& phases) const {
    const auto normed = [&](const Tensor& x) { return rms_norm(x, scale, 1e-5); };
    const Tensor tokens = dropout(gather(table, ids, 0), key, 0.2);
    const Tensor hidden = tokens + dropout(linear(gelu(linear(normed(tokens), up, {})), down, bias), key, 0.1);
    const Tensor loss = sum(linear(normed(hidden), head, {}) * weight);
    phases.backward_from = make_input({}).node()->sequence;
    std::vector<Tensor> all{loss};
    for (const Tensor& gradient : gradients(loss, {table, scale, up, down, bias, head})) all.push_back(gradient);
    return all;
  }
  std::vector<PlacedLeaf> leaves(const ProcessMesh& mesh) const {
    const auto cut = [&](const Tensor& leaf, size_t dimension) {
      return PlacedLeaf{leaf, sharded(mesh, leaf.shape(), dimension, {kTensorAxis})};
    };
    std::vector<PlacedLeaf> placed{cut(table, 0), cut(up, 0), cut(down, 1), cut(head, 0)};
    for (const Tensor& leaf : {scale, bias}) placed.push_back({leaf, replicated(1)});
    placed.push_back({ids, cut_further(mesh, replicated(2), ids.shape(), 1, kContextAxis)});
    placed.push_back({weight, cut_further(mesh, replicated(3), weight.shape(), 1, kContextAxis)});
    return placed;
  }
};

class SequenceParallel : public testing::TestWithParam<StretchCase> {};

TEST_P(SequenceParallel, HasTheValuesOfTheWhole) {
  const StretchCase& test = GetParam();
  const Block block(test.S);
  StepPhases phases;
  const std::vector<Tensor> expected = block.outputs(phases);
  const ProcessMesh::Sizes sizes{1, 1, 1, test.context, 1, test.tensor};
  const auto run = [&](bool sequence_parallel, std::vector<CollectiveRecord>& records) {
    StepPhases traced;
    const std::vector<Tensor> outputs = block.outputs(traced);
    const auto results = run_sharded(
        sizes, [&](const ProcessMesh& mesh) { return block.leaves(mesh); }, outputs, traced, &records,
        ContextStrategy::kHeads, sequence_parallel);
    ASSERT_FALSE(results.empty());
    for (const auto& of_rank : results)
      for (size_t i = 0; i < of_rank.size(); ++i) EXPECT_LE(largest_difference(of_rank[i], expected[i]), 1e-5) << i;
  };
  std::vector<CollectiveRecord> whole, stretches;
  run(false, whole);
  run(true, stretches);
  const auto count = [](const std::vector<CollectiveRecord>& records, std::string_view kind) {
    return std::count_if(records.begin(), records.end(),
                         [&](const CollectiveRecord& each) { return each.kind == kind && each.axes.has(kTensorAxis); });
  };
  // Tokens and the rows of the second layer; backward, before each norm.
  EXPECT_GE(count(stretches, "reduce_scatter") - count(whole, "reduce_scatter"), 4);
  // Before the first layer and the head, and again backward, for their weights.
  EXPECT_GE(count(stretches, "all_gather") - count(whole, "all_gather"), 4);
  // What is left are gradients of norms and biases.
  const auto summed = [](const std::vector<CollectiveRecord>& records) {
    int64_t bytes = 0;
    for (const CollectiveRecord& each : records)
      if (each.kind == "all_reduce" && each.axes.has(kTensorAxis)) bytes += each.bytes;
    return bytes;
  };
  EXPECT_LT(summed(stretches), summed(whole));
}

INSTANTIATE_TEST_SUITE_P(Meshes, SequenceParallel,
                         testing::Values(StretchCase{"Two", 2, 1, 8}, StretchCase{"Uneven", 2, 1, 7},
                                         StretchCase{"Three", 3, 1, 7}, StretchCase{"WithPlaces", 2, 2, 9}),
                         [](const auto& info) { return info.param.name; });

// A step of one place (the next token of a text) has nothing to share: it is summed as without.
TEST(SequenceParallelOfOnePlace, IsTensorParallel) {
  const Block block(1);
  StepPhases phases;
  const std::vector<Tensor> outputs = block.outputs(phases);
  std::vector<CollectiveRecord> records;
  const auto results = run_sharded(
      {1, 1, 1, 1, 1, 2}, [&](const ProcessMesh& mesh) { return block.leaves(mesh); }, outputs, phases, &records,
      ContextStrategy::kHeads, true);
  ASSERT_FALSE(results.empty());
  EXPECT_LE(largest_difference(results[0][0], outputs[0]), 1e-5);
}

}  // namespace
}  // namespace transom
