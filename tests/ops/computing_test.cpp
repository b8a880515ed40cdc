// SPDX-License-Identifier: Apache-2.0
#include "ops/computing.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

#include "nn/labelled_positions.h"
#include "nn/linear_observer.h"
#include "nn/lora.h"
#include "nn/noisy_embedding.h"
#include "nn/sparse_lookups.h"
#include "ops/batch_invariance.h"
#include "transom/ops.h"

namespace transom {
namespace {

struct Nothing : LinearObserver {
  void before(const Tensor&, const Parameter&) override {}
};

std::string key_here() { return key_of(computing()).value(); }

TEST(ComputingOfAThread, EachSwitchIsInTheKeyAndLeavesIt) {
  const std::string plain = key_here();
  const auto expect_other = [&](auto&& scope_of) {
    {
      const auto scope = scope_of();
      EXPECT_NE(key_here(), plain);
    }
    EXPECT_EQ(key_here(), plain);
  };
  expect_other([] { return std::make_unique<Autocast>(DType::kBFloat16); });
  expect_other([] { return std::make_unique<AllowTf32>(); });
  expect_other([] { return std::make_unique<QuantizedLinear>(); });
  expect_other([] { return std::make_unique<BatchInvariance>(); });
  expect_other([] { return std::make_unique<MaxPredictions>(3); });
}

TEST(ComputingOfAThread, HasNoKeyUnderWhatBelongsToACaller) {
  const AdapterSet adapters;
  const auto expect_none = [](auto&& scope_of) {
    {
      const auto scope = scope_of();
      EXPECT_EQ(key_of(computing()), std::nullopt);
    }
    EXPECT_NE(key_of(computing()), std::nullopt);
  };
  expect_none([&] { return std::make_unique<AdapterScope>(&adapters); });
  expect_none([] { return std::make_unique<Nothing>(); });
  expect_none([] { return std::make_unique<CollectLookups>(); });
  expect_none([] { return std::make_unique<NoisyEmbedding>(nullptr, 1.0, Tensor()); });
}

TEST(ComputingOfAThread, AScopeReplacesAllOfIt) {
  const AdapterSet adapters;
  const AdapterScope outer(&adapters);
  const Autocast low(DType::kBFloat16);
  {
    const ComputingScope whole({.tf32 = true});
    EXPECT_EQ(computing().dtype, DType::kFloat32);
    EXPECT_EQ(computing().adapters, nullptr);
    EXPECT_TRUE(computing().tf32);
  }
  EXPECT_EQ(computing().dtype, DType::kBFloat16);
  EXPECT_EQ(computing().adapters, &adapters);
  EXPECT_FALSE(computing().tf32);
}

TEST(ComputingOfAThread, OtherThreadsHaveTheirOwn) {
  const ComputingScope here({.dtype = DType::kBFloat16, .tf32 = true, .int8 = true, .batch_invariant = true});
  const std::string there = std::async(std::launch::async, key_here).get();
  EXPECT_NE(there, key_here());
  const ComputingScope plain({});
  EXPECT_EQ(there, key_here());
}

}  // namespace
}  // namespace transom
