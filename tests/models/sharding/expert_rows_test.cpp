// SPDX-License-Identifier: Apache-2.0
// Products by group whose weights are spread by group: rows that travel to them, and what comes back.
#include <algorithm>
#include <random>

#include "graph/ops/products/grouped_linear.h"
#include "simulated_mesh.h"
#include "transom/gradients.h"

namespace transom {
namespace {

struct ExpertCase {
  const char* name;
  int64_t ep, tp, rows, experts;
  bool rows_are_cut = true;
  int64_t least = 0, most = 0;  // experts that are chosen; `most` 0: all
};

class ExpertRows : public testing::TestWithParam<ExpertCase> {};

TEST_P(ExpertRows, HaveTheValuesAndGradientsOfOneProcess) {
  const ExpertCase& test = GetParam();
  constexpr int64_t k = 2, D = 6, I = 8;
  const int64_t N = test.rows, E = test.experts;
  // Two experts of each row, which differ.
  std::mt19937_64 generator(9);
  std::vector<int64_t> chosen;
  const auto low = static_cast<uint64_t>(test.least), count = static_cast<uint64_t>(test.most ? test.most : E) - low;
  for (int64_t row = 0; row < N; ++row) {
    const uint64_t first = generator() % count, second = (first + 1 + generator() % (count - 1)) % count;
    chosen.push_back(static_cast<int64_t>(low + first));
    chosen.push_back(static_cast<int64_t>(low + second));
  }
  const Tensor x = drawn_values({N, D}, 1), shares = drawn_values({N, k}, 2), target = drawn_values({N, D}, 3),
               groups = Tensor::from(chosen, {N, k});
  std::vector<Tensor> w1, w2, w3, trained{x, shares};
  for (int64_t i = 0; i < E; ++i) {
    const auto seed = static_cast<uint64_t>(10 * i + 10);
    w1.push_back(drawn_values({I, D}, seed));
    w2.push_back(drawn_values({D, I}, seed + 1));
    w3.push_back(drawn_values({I, D}, seed + 2));
  }
  for (const auto* weights : {&w1, &w2, &w3}) trained.insert(trained.end(), weights->begin(), weights->end());
  for (Tensor& tensor : trained) tensor.set_requires_grad();
  const auto outputs = [&] {
    const Tensor inner = silu(grouped_linear(x, groups, w1)) * grouped_linear(x, groups, w3);
    const Tensor y = reduce_sum(grouped_linear(inner, groups, w2) * unsqueeze(shares, -1), {1});
    std::vector<Tensor> all{y};
    for (const Tensor& gradient : gradients(sum(y * target), trained)) all.push_back(gradient);
    return all;
  };
  const std::vector<Tensor> expected = outputs();
  const LeavesOf leaves = [&](const ProcessMesh& mesh) {
    std::vector<PlacedLeaf> placed;
    for (const Tensor& rows : {x, shares, target, groups})
      placed.push_back({rows, test.rows_are_cut ? sharded(mesh, rows.shape(), 0, {MeshAxis::kExpert})
                                                : replicated(rows.shape().size())});
    for (int64_t i = 0; i < E; ++i) {
      int64_t owner = 0;
      while (part_of({0, E}, owner, test.ep).end <= i) ++owner;
      const auto place = [&](const Tensor& weight, size_t by_tensor) {
        Placement placement = replicated(2);
        size_t owned = 0;
        if (test.tp > 1) {
          placement.dimensions[by_tensor] =
              sharded(mesh, weight.shape(), by_tensor, {MeshAxis::kTensor}).dimensions[by_tensor];
          owned = 1 - by_tensor;
        }
        placement.dimensions[owned] = {owned_cut(MeshAxis::kExpert, weight.dim(static_cast<int64_t>(owned)), owner)};
        placed.push_back({weight, placement});
      };
      const auto at = static_cast<size_t>(i);
      place(w1[at], 0), place(w2[at], 1), place(w3[at], 0);
    }
    return placed;
  };
  std::vector<CollectiveRecord> records;
  const auto results = run_sharded({1, 1, 1, 1, test.ep, test.tp}, leaves, outputs(), {}, &records);
  ASSERT_FALSE(results.empty());
  for (const auto& of_rank : results)
    for (size_t i = 0; i < of_rank.size(); ++i) EXPECT_LE(largest_difference(of_rank[i], expected[i]), 1e-5) << i;
  // The rows' experts, rows and results forward; gradients of results, and of rows for each of two products backward.
  const auto travels = std::count_if(records.begin(), records.end(), [](const CollectiveRecord& record) {
    return record.kind == "all_to_all" && record.axes.has(MeshAxis::kExpert);
  });
  EXPECT_EQ(travels, test.rows_are_cut ? 6 : 0);
}

INSTANTIATE_TEST_SUITE_P(Cases, ExpertRows,
                         testing::Values(ExpertCase{"Two", 2, 1, 12, 4}, ExpertCase{"UnevenExperts", 3, 1, 13, 4},
                                         ExpertCase{"UnevenRows", 2, 1, 7, 4}, ExpertCase{"AndTensor", 2, 2, 9, 4},
                                         ExpertCase{"OneProcessGetsAll", 2, 1, 10, 4, true, 0, 2},
                                         ExpertCase{"ExpertsWithoutRows", 4, 1, 8, 8, true, 1, 4},
                                         ExpertCase{"RowsOfAll", 2, 1, 12, 4, false},
                                         ExpertCase{"RowsOfAllAndTensor", 2, 2, 5, 4, false}),
                         [](const auto& info) { return info.param.name; });

TEST(OwnedCut, IsWholeOnOneProcessAndEmptyOnOthers) {
  const Tensor w = drawn_values({3, 5}, 1);
  const LeavesOf leaves = [&](const ProcessMesh& mesh) -> std::vector<PlacedLeaf> {
    Placement placement = replicated(2);
    placement.dimensions[1] = {owned_cut(MeshAxis::kExpert, 5, 1)};
    EXPECT_EQ(local_shape(mesh, placement, w.shape()), (Shape{3, mesh.coordinate(MeshAxis::kExpert) == 1 ? 5 : 0}));
    return {{w, placement}};
  };
  for (const auto& of_rank : run_sharded({1, 1, 1, 1, 3, 1}, leaves, {w + w, sum(w * w)}))
    EXPECT_LE(std::max(largest_difference(of_rank[0], w + w), largest_difference(of_rank[1], sum(w * w))), 1e-6);
}

}  // namespace
}  // namespace transom
