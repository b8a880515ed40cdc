// SPDX-License-Identifier: Apache-2.0
// Bags of embeddings against sums one by one: empty and long bags, offsets in any order, both types of indices.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/harness.h"

namespace transom::backend_test {
namespace {

struct Bags {
  std::vector<double> offsets, indices;
  transom_dtype index_dtype;
};

std::vector<Tensor> all_inputs(const Tensor& dense, const std::vector<Tensor>& tables, const std::vector<Bags>& bags) {
  Tensor offsets = tensor(TRANSOM_INT64, {static_cast<int64_t>(bags.size()), dense.shape[0]}, {});
  std::vector<Tensor> inputs{dense, offsets};
  inputs.insert(inputs.end(), tables.begin(), tables.end());
  for (const Bags& bag : bags) {
    inputs[1].values.insert(inputs[1].values.end(), bag.offsets.begin(), bag.offsets.end());
    inputs.push_back(tensor(bag.index_dtype, {static_cast<int64_t>(bag.indices.size())}, bag.indices));
  }
  return inputs;
}

// Each table's bags by the rule of its documentation: a bag ends where the next one of the sorted offsets begins.
std::vector<float> expected_of(const Tensor& dense, const std::vector<Tensor>& tables, const std::vector<Bags>& bags) {
  const auto samples = static_cast<size_t>(dense.shape[0]), width = static_cast<size_t>(dense.shape[1]);
  const size_t vectors = 1 + tables.size();
  std::vector<float> result(samples * vectors * width, 0.0f);
  for (size_t i = 0; i < samples * width; ++i)
    result[i / width * vectors * width + i % width] = static_cast<float>(dense.values[i]);
  for (size_t t = 0; t < tables.size(); ++t) {
    std::vector<double> begins = bags[t].offsets;
    std::sort(begins.begin(), begins.end());
    for (size_t k = 0; k < bags[t].indices.size(); ++k) {
      const auto begun = std::upper_bound(begins.begin(), begins.end(), static_cast<double>(k)) - begins.begin();
      const size_t at = (static_cast<size_t>(begun - 1) * vectors + 1 + t) * width;
      for (size_t i = 0; i < width; ++i)
        result[at + i] += static_cast<float>(tables[t].values[static_cast<size_t>(bags[t].indices[k]) * width + i]);
    }
  }
  return result;
}

TEST(EmbeddingBags, SumsRowsOfEachBagInOrder) {
  for (const int64_t width : {1, 16, 37}) {
    const Tensor dense = numbers(TRANSOM_FLOAT32, {5, width}, -2, 2, 1);
    const std::vector<Tensor> tables = {numbers(TRANSOM_FLOAT32, {9, width}, -2, 2, 2),
                                        numbers(TRANSOM_FLOAT32, {3, width}, -2, 2, 3),
                                        numbers(TRANSOM_FLOAT32, {4, width}, -2, 2, 4)};
    const std::vector<Bags> bags = {{{0, 1, 1, 6, 20}, {8, 0, 3, 3, 7, 1, 2}, TRANSOM_INT64},
                                    {{4, 0, 2, 0, 3}, {2, 1, 0, 2, 2}, TRANSOM_INT32},
                                    {{0, 0, 0, 0, 0}, {}, TRANSOM_INT64}};
    const Tensor made = evaluate("embedding_bags", all_inputs(dense, tables, bags), TRANSOM_FLOAT32, {5, 4, width}, {});
    const std::vector<float> expected = expected_of(dense, tables, bags);
    EXPECT_EQ(made.values, std::vector<double>(expected.begin(), expected.end())) << width;
  }
}

// As many as make several threads share them.
TEST(EmbeddingBags, ManySamplesHaveTheSumsOfFew) {
  constexpr int64_t kSamples = 3000, kWidth = 24;
  const Tensor dense = numbers(TRANSOM_FLOAT32, {kSamples, kWidth}, -2, 2, 1);
  const std::vector<Tensor> tables = {numbers(TRANSOM_FLOAT32, {1000, kWidth}, -2, 2, 2)};
  Bags bags{{}, {}, TRANSOM_INT64};
  for (int64_t b = 0; b < kSamples; ++b) {
    bags.offsets.push_back(static_cast<double>(bags.indices.size()));
    for (int64_t k = 0; k < b % 4; ++k) bags.indices.push_back(static_cast<double>((b * 37 + k * 311) % 1000));
  }
  const Tensor made =
      evaluate("embedding_bags", all_inputs(dense, tables, {bags}), TRANSOM_FLOAT32, {kSamples, 2, kWidth}, {});
  const std::vector<float> expected = expected_of(dense, tables, {bags});
  EXPECT_EQ(made.values, std::vector<double>(expected.begin(), expected.end()));
}

TEST(EmbeddingBags, RefusesWhatLiesOutside) {
  const Tensor dense = numbers(TRANSOM_FLOAT32, {2, 4});
  const std::vector<Tensor> tables = {numbers(TRANSOM_FLOAT32, {3, 4})};
  for (const Bags& bad : {Bags{{0, 1}, {0, 3}, TRANSOM_INT64}, Bags{{0, 1}, {-1, 2}, TRANSOM_INT32},
                          Bags{{1, 2}, {0, 2}, TRANSOM_INT64}, Bags{{-1, 0}, {0, 2}, TRANSOM_INT64}}) {
    EXPECT_NE(failure_of("embedding_bags", all_inputs(dense, tables, {bad}), TRANSOM_FLOAT32, {2, 2, 4}), "");
  }
}

}  // namespace
}  // namespace transom::backend_test
