// SPDX-License-Identifier: Apache-2.0
// Segments of queries, on masks of two places that are told as far as a picture of 4 x 2 goes.
#include "work/pipelines/images/masks/query_masks.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

// Queries on maps of one row with a left and a right half.
struct Queries {
  std::vector<float> logits, masks;
  QueryMasks found(int64_t classes) const {
    return {.logits = logits,
            .masks = masks,
            .queries = static_cast<int64_t>(masks.size()) / 2,
            .classes = classes,
            .h = 1,
            .w = 2,
            .height = 2,
            .width = 4};
  }
};

std::vector<uint8_t> first_row(const QuerySegment& segment) {
  const auto& levels = std::get<std::vector<uint8_t>>(segment.mask.values);
  EXPECT_EQ(levels.size(), 8U);
  return {levels.begin(), levels.begin() + 4};
}
const std::vector<uint8_t> kLeft = {255, 255, 0, 0}, kRight = {0, 0, 255, 255}, kAll = {255, 255, 255, 255},
                           kNone = {0, 0, 0, 0};

TEST(QueryMasks, PanopticSegmentsDoNotOverlap) {
  // Of class 1 on the left, of class 0 everywhere but less sure, and one that sees nothing.
  const Queries queries{{-9, 9, -9, 4, -9, 0, -9, -9, 9}, {30, -30, 3, 3, 30, 30}};
  const std::vector<QuerySegment> found = panoptic_segments(queries.found(2), {.score = 0.5, .left_of_it = 0.3});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].label, 1);
  EXPECT_EQ(first_row(found[0]), kLeft);
  EXPECT_NEAR(found[0].score.value(), 1, 1e-6);
  EXPECT_EQ(found[1].label, 0);
  EXPECT_EQ(first_row(found[1]), kRight);
  // Half of the second is left, which is not enough here.
  EXPECT_EQ(panoptic_segments(queries.found(2), {.score = 0.5, .left_of_it = 0.6}).size(), 1U);
  EXPECT_TRUE(panoptic_segments(queries.found(2), {.score = 1}).empty());
}

TEST(QueryMasks, InstancesLieAboveEachOther) {
  // Two objects of class 0 and one that has no pixel: the one that is the surest of its class comes first.
  const Queries queries{{9, -9, 7, -9, 8, -9}, {30, 30, 30, -30, -30, -30}};
  const std::vector<QuerySegment> found = instance_segments(queries.found(1), 0.5);
  ASSERT_EQ(found.size(), 2U);
  for (const QuerySegment& each : found) EXPECT_EQ(each.label, 0);
  EXPECT_EQ(first_row(found[0]), kRight);
  EXPECT_EQ(first_row(found[1]), kLeft);
  EXPECT_TRUE(instance_segments(queries.found(1), 1.1).empty());
}

TEST(QueryMasks, AnObjectBelowAnotherIsToldWithoutPixels) {
  const Queries queries{{9, -9, 5, -9}, {-30, 30, 30, 30}};
  const std::vector<QuerySegment> found = instance_segments(queries.found(1), 0.5);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(first_row(found[0]), kNone);
  EXPECT_EQ(first_row(found[1]), kAll);
}

TEST(QueryMasks, ClassesAddUpTheirQueries) {
  // Two queries of class 2 outweigh one of class 0 on the right.
  const Queries queries{{9, -9, -9, -9, -1, -9, 1, 0, -1, -9, 1, 0}, {30, 30, -30, 30, -30, 30}};
  const std::vector<QuerySegment> found = semantic_segments(queries.found(3));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].label, 0);
  EXPECT_EQ(first_row(found[0]), kLeft);
  EXPECT_EQ(found[1].label, 2);
  EXPECT_EQ(first_row(found[1]), kRight);
  EXPECT_FALSE(found[1].score.has_value());
}

}  // namespace
}  // namespace transom
