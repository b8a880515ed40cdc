// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/computing.h"

#include <gtest/gtest.h>

#include "graph/ir/node.h"
#include "models/nn/linear_observer.h"
#include "models/nn/lora.h"
#include "models/nn/noisy_embedding.h"
#include "models/nn/sparse_lookups.h"
#include "transom/gradients.h"

namespace transom {
namespace {

struct Nothing : LinearObserver {
  void before(const Tensor&, const Parameter&, const Computing&) override {}
};

struct OfACaller {
  AdapterSet adapters;
  Nothing observer;
  NoisyEmbedding noise{nullptr, 1, Tensor()};
  std::vector<SparseLookup> lookups;
};

TEST(KeyOfComputing, HasEachSwitch) {
  const std::string plain = key_of({}).value();
  for (const Computing& other : {Computing{.dtype = DType::kBFloat16}, Computing{.tf32 = true}, Computing{.int8 = true},
                                 Computing{.batch_invariant = true}, Computing{.max_predictions = 3}})
    EXPECT_NE(key_of(other).value(), plain);
  EXPECT_EQ(key_of(kAsGiven).value(), plain);
}

TEST(KeyOfComputing, IsNoneUnderWhatBelongsToACaller) {
  OfACaller mine;
  for (const Computing& other : {Computing{.adapters = &mine.adapters}, Computing{.observer = &mine.observer},
                                 Computing{.noise = &mine.noise}, Computing{.lookups = &mine.lookups}})
    EXPECT_EQ(key_of(other), std::nullopt);
}

TEST(KeyOfComputing, HasAdaptersThatAreKept) {
  const AdapterSet one, other;
  const auto key_with = [](const AdapterSet* adapters) { return key_of({.adapters = adapters}, adapters).value(); };
  EXPECT_NE(key_with(&one), key_with(&other));
  EXPECT_NE(key_with(&one), key_with(nullptr));
  EXPECT_EQ(key_of({.adapters = &one}, &other), std::nullopt);
}

TEST(JoinedComputing, HasWhatEitherAsksFor) {
  OfACaller mine;
  const Computing all{.dtype = DType::kBFloat16,
                      .tf32 = true,
                      .int8 = true,
                      .batch_invariant = true,
                      .max_predictions = 3,
                      .adapters = &mine.adapters,
                      .observer = &mine.observer,
                      .noise = &mine.noise,
                      .lookups = &mine.lookups};
  for (const Computing& found : {joined(all, {}), joined({}, all)}) {
    EXPECT_EQ(found.dtype, DType::kBFloat16);
    EXPECT_TRUE(found.tf32 && found.int8 && found.batch_invariant);
    EXPECT_EQ(found.max_predictions, 3);
    EXPECT_EQ(found.adapters, &mine.adapters);
    EXPECT_EQ(found.observer, &mine.observer);
    EXPECT_EQ(found.noise, &mine.noise);
    EXPECT_EQ(found.lookups, &mine.lookups);
  }
}

TEST(JoinedComputing, KeepsTheTypeOfItsOwnerAndTakesWhatTheCallerBrings) {
  const AdapterSet one, other;
  const Computing found = joined({.dtype = DType::kFloat16, .max_predictions = 3, .adapters = &one},
                                 {.dtype = DType::kBFloat16, .max_predictions = 5, .adapters = &other});
  EXPECT_EQ(found.dtype, DType::kFloat16);
  EXPECT_EQ(found.max_predictions, 5);
  EXPECT_EQ(found.adapters, &other);
}

Tensor input(const Shape& shape) { return make_input({DType::kFloat32, shape}); }

bool says_so(const Tensor& x) { return x.node()->attributes.has(kBatchInvariant); }

TEST(BatchInvariantOperations, SaySo) {
  const Tensor x = input({2, 3}), w = input({4, 3}), q = input({1, 5, 2, 8}), image = input({2, 3, 5, 5});
  for (const bool apart : {false, true}) {
    const Computing computing{.batch_invariant = apart};
    EXPECT_EQ(says_so(linear(x, w, {}, computing)), apart);
    EXPECT_EQ(says_so(dot_general(x, w, {{}, {}, {1}, {1}}, computing)), apart);
    EXPECT_EQ(says_so(attention(q, q, q, {}, {}, computing)), apart);
    EXPECT_EQ(says_so(convolution(image, input({4, 3, 3, 3}), {}, computing)), apart);
  }
}

// Its gradient is no more the library's than it is.
TEST(BatchInvariantOperations, AttentionsGradientSaysSoToo) {
  const Tensor q = input({1, 5, 2, 8}), k = input({1, 5, 2, 8}), v = input({1, 5, 2, 8}), dy = input({1, 5, 2, 8});
  const Tensor y = attention(q, k, v, {}, {}, {.batch_invariant = true});
  EXPECT_TRUE(says_so(gradients({y}, {dy}, {q})[0]));
}

}  // namespace
}  // namespace transom
