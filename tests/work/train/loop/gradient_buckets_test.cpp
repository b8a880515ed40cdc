// SPDX-License-Identifier: Apache-2.0
#include "work/train/step/gradient_buckets.h"

#include <gtest/gtest.h>

#include "transom/ops.h"

namespace transom {
namespace {

using Buckets = std::vector<std::vector<size_t>>;

std::vector<Tensor> tensors_of(const std::vector<int64_t>& sizes) {
  std::vector<Tensor> result;
  for (const int64_t size : sizes) result.push_back(size < 0 ? Tensor() : full({size}, 0, DType::kFloat32));
  return result;
}

TEST(PlanBuckets, GoesFromTheLastToTheFirst) {
  EXPECT_EQ(plan_buckets(tensors_of({10, 10, 10, 10}), 80, 80), (Buckets{{3, 2}, {1, 0}}));
}

TEST(PlanBuckets, BeginsWithASmallOne) {
  EXPECT_EQ(plan_buckets(tensors_of({10, 10, 10, 10}), 80, 40), (Buckets{{3}, {2, 1}, {0}}));
}

TEST(PlanBuckets, GivesALargeTensorOneOfItsOwn) {
  EXPECT_EQ(plan_buckets(tensors_of({5, 1000, 5}), 80, 20), (Buckets{{2}, {1}, {0}}));
}

TEST(PlanBuckets, LeavesOutWhatIsNotThere) {
  EXPECT_EQ(plan_buckets(tensors_of({10, -1, 10}), 800, 800), (Buckets{{2, 0}}));
}

TEST(PlanBuckets, KeepsElementTypesApart) {
  std::vector<Tensor> tensors = tensors_of({10, 10});
  tensors.push_back(full({10}, 0, DType::kBFloat16));
  tensors.push_back(full({10}, 0, DType::kFloat32));
  EXPECT_EQ(plan_buckets(tensors, 8000, 8000), (Buckets{{2}, {3, 1, 0}}));
}

}  // namespace
}  // namespace transom
