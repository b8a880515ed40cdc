// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/process_mesh.h"

#include <gtest/gtest.h>

#include "models/sharding/placement.h"
#include "transom/error.h"

namespace transom {
namespace {

TEST(ProcessMesh, CountsRanksFromTheOuterAxisToTheInnerOne) {
  const ProcessMesh mesh({1, 2, 1, 1, 1, 3}, 4, 6);
  EXPECT_EQ(mesh.coordinate(MeshAxis::kData), 1);
  EXPECT_EQ(mesh.coordinate(MeshAxis::kTensor), 1);
  EXPECT_EQ(mesh.group({MeshAxis::kTensor}), (std::vector<int64_t>{3, 4, 5}));
  EXPECT_EQ(mesh.group({MeshAxis::kData}), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(mesh.group({MeshAxis::kData, MeshAxis::kTensor}), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
}

TEST(ProcessMesh, RefusesSizesThatDoNotFit) {
  EXPECT_THROW(ProcessMesh({1, 2, 1, 1, 1, 2}, 0, 3), Error);
  EXPECT_THROW(ProcessMesh({1, 0, 1, 1, 1, 3}, 0, 3), Error);
  EXPECT_THROW(ProcessMesh({1, 3, 1, 1, 1, 1}, 3, 3), Error);
}

TEST(Placement, DealsUnitsAsEvenlyAsCanBe) {
  const ProcessMesh mesh({1, 3, 1, 1, 1, 2}, 2, 6);  // dp 1, tp 0
  EXPECT_EQ(local_shape(mesh, sharded(mesh, {7, 4}, 0, {MeshAxis::kData}), {7, 4}), (Shape{2, 4}));
  EXPECT_EQ(local_shape(mesh, sharded(mesh, {12, 4}, 0, {MeshAxis::kTensor}, 4), {12, 4}), (Shape{8, 4}));
  const Placement both = cut_further(mesh, sharded(mesh, {9}, 0, {MeshAxis::kTensor}), {9}, 0, MeshAxis::kData);
  EXPECT_EQ(local_shape(mesh, both, {9}), (Shape{2}));  // of 5, then 2, 2, 1
  // Nobody is left without a part.
  EXPECT_TRUE(cut_further(mesh, replicated(1), {2}, 0, MeshAxis::kData).is_replicated());
}

}  // namespace
}  // namespace transom
