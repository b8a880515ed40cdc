// SPDX-License-Identifier: Apache-2.0
// The sharding pass: each operation, whole and in parts, must give the same.
#include <random>

#include "models/sharding/rules/factor_rules.h"
#include "simulated_mesh.h"
#include "transom/gradients.h"

namespace transom {
namespace {

Tensor random_tensor(const Shape& shape, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<float> values(static_cast<size_t>(elements(shape)));
  for (float& value : values) value = static_cast<float>(generator() >> 40) / 0x1p24F - 0.5F;
  return Tensor::from(values, shape);
}

constexpr ProcessMesh::Sizes kData3 = {1, 3, 1, 1, 1, 1}, kTensor2 = {1, 1, 1, 1, 1, 2}, kShard4 = {1, 1, 4, 1, 1, 1},
                             kData2Tensor2 = {1, 2, 1, 1, 1, 2};

// Random placements of the samples of every operation that has a rule.
TEST(GraphSharder, OperationsGiveTheSameInParts) {
  std::mt19937_64 generator(7);
  int tried = 0;
  for (const Operation* operation : all_operations()) {
    if (!operation->samples || operation->collective || operation->name == "on_host") continue;
    // Layouts and codes come later; what CTC takes must fit together, which random numbers do not.
    if (operation->name.starts_with("channels_last") || operation->name.starts_with("quantized") ||
        operation->name.starts_with("ctc"))
      continue;
    for (const Sample& sample : operation->samples()) {
      bool plain = true;
      for (const Type& type : sample.inputs)
        plain = plain && (type.dtype == DType::kFloat32 || type.dtype == DType::kInt64) && elements(type.shape) > 0 &&
                elements(type.shape) < 5000;
      if (!plain || sample.inputs.empty()) continue;
      std::vector<Tensor> leaves;
      for (const Type& type : sample.inputs) {
        std::vector<float> values(static_cast<size_t>(elements(type.shape)));
        for (float& value : values) {
          const double unit = static_cast<double>(generator() >> 40) / 0x1p24;
          value =
              static_cast<float>(is_floating(type.dtype) ? sample.low + unit * (sample.high - sample.low)
                                                         : std::floor(unit * static_cast<double>(sample.index_limit)));
        }
        const Tensor leaf = cast(Tensor::from(values, type.shape), type.dtype);
        leaves.push_back(leaf);
      }
      eval(leaves);
      for (const ProcessMesh::Sizes& sizes : {kData3, kData2Tensor2}) {
        const uint64_t seed = generator();
        const LeavesOf placed = [&](const ProcessMesh& mesh) {
          std::mt19937_64 draw(seed);
          std::vector<PlacedLeaf> result;
          for (const Tensor& leaf : leaves) {
            Placement placement = replicated(leaf.shape().size());
            for (const MeshAxis axis : {MeshAxis::kData, MeshAxis::kTensor}) {
              const uint64_t dimension = draw() % (leaf.shape().size() + 1);
              if (mesh.size(axis) == 1 || dimension == leaf.shape().size()) continue;
              placement = cut_further(mesh, placement, leaf.shape(), dimension, axis);
            }
            result.push_back({leaf, placement});
          }
          return result;
        };
        std::vector<Tensor> expected;
        try {
          expected = make_tensors(*operation, leaves, sample.attributes);
        } catch (const std::exception&) {
          continue;
        }
        std::vector<Tensor> again = make_tensors(*operation, leaves, sample.attributes);
        const auto results = run_sharded(sizes, placed, again);
        ASSERT_FALSE(results.empty()) << operation->name;
        ++tried;
        for (const auto& of_rank : results)
          for (size_t i = 0; i < of_rank.size(); ++i)
            EXPECT_LE(largest_difference(of_rank[i], expected[i]), 2e-5)
                << operation->name << " " << to_string(sample.attributes);
      }
    }
  }
  EXPECT_GT(tried, 100);
}

// A layer with its gradients, rows over dp and weights over tp.
TEST(GraphSharder, GradientsOfALayerCutByColumnsAndRows) {
  const Tensor x = random_tensor({6, 5, 8}, 1), up = random_tensor({12, 8}, 2), bias = random_tensor({12}, 3),
               down = random_tensor({8, 12}, 4), scale = random_tensor({8}, 5);
  for (const Tensor* weight : {&up, &bias, &down, &scale}) Tensor(*weight).set_requires_grad();
  const auto outputs = [&] {
    const Tensor y = linear(gelu(linear(rms_norm(x, scale, 1e-6), up, bias)), down) + x;
    const Tensor loss = sum(y * y);
    std::vector<Tensor> all{loss};
    for (const Tensor& gradient : gradients(loss, {up, bias, down, scale})) all.push_back(gradient);
    return all;
  };
  const std::vector<Tensor> expected = outputs();
  const LeavesOf leaves = [&](const ProcessMesh& mesh) -> std::vector<PlacedLeaf> {
    return {{x, sharded(mesh, x.shape(), 0, {MeshAxis::kData})},
            {up, sharded(mesh, up.shape(), 0, {MeshAxis::kTensor})},
            {bias, sharded(mesh, bias.shape(), 0, {MeshAxis::kTensor})},
            {down, sharded(mesh, down.shape(), 1, {MeshAxis::kTensor})},
            {scale, replicated(1)}};
  };
  std::vector<CollectiveRecord> records;
  for (const auto& of_rank : run_sharded(kData2Tensor2, leaves, outputs(), {}, &records))
    for (size_t i = 0; i < of_rank.size(); ++i) EXPECT_LE(largest_difference(of_rank[i], expected[i]), 1e-5) << i;
  // Forward one sum over tp, backward one; no weight is gathered before it is asked for at the end.
  const auto sums = std::count_if(records.begin(), records.end(), [](const CollectiveRecord& record) {
    return record.kind == "all_reduce" && record.axes == MeshAxes{MeshAxis::kTensor} && record.bytes >= 3 * 5 * 8 * 4;
  });
  EXPECT_EQ(sums, 2);
}

TEST(GraphSharder, StoredWeightsAreGatheredInEachPhase) {
  const Tensor x = random_tensor({8, 4}, 1), w = random_tensor({5, 4}, 2), v = random_tensor({5, 6}, 3);
  Tensor(w).set_requires_grad();
  Tensor(v).set_requires_grad();
  Tensor(x).set_requires_grad();
  static const std::string first_layer = "layers.0", second_layer = "layers.1";
  Tensor y, loss;
  {
    const UseScope scope(&first_layer);
    y = tanh(linear(x, w));
  }
  {
    // v is used as it lies and transposed.
    const UseScope scope(&second_layer);
    loss = sum(tanh(linear(y, transpose(v, 0, 1))));
  }
  const uint64_t backward = constant(0).node()->sequence;
  const std::vector<Tensor> of_weights = gradients(loss, {w, v, x});
  const std::vector<Tensor> expected = {loss + 0.0, of_weights[0] + 0.0, of_weights[1] + 0.0, of_weights[2] + 0.0};
  const LeavesOf leaves = [&](const ProcessMesh& mesh) -> std::vector<PlacedLeaf> {
    return {{x, sharded(mesh, x.shape(), 0, {MeshAxis::kShard})},
            {w, sharded(mesh, w.shape(), 0, {MeshAxis::kShard}), MeshAxes{MeshAxis::kShard}},
            {v, sharded(mesh, v.shape(), 0, {MeshAxis::kShard}), MeshAxes{MeshAxis::kShard}}};
  };
  std::vector<CollectiveRecord> records;
  const auto results = run_sharded(kShard4, leaves, {loss, of_weights[0], of_weights[1], of_weights[2]},
                                   {.backward_from = backward}, &records);
  for (const auto& of_rank : results)
    for (size_t i = 0; i < of_rank.size(); ++i) EXPECT_LE(largest_difference(of_rank[i], expected[i]), 1e-5) << i;
  // Forward both, and again backward the first layer: that of the second one, with which it begins, is still there.
  EXPECT_EQ(std::count_if(records.begin(), records.end(),
                          [](const auto& each) { return each.kind == "all_gather" && !each.scope.empty(); }),
            3);
}

}  // namespace
}  // namespace transom
