// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/images/masks/mask_crops.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace transom {
namespace {

std::array<int64_t, 4> edges(const MaskCrop& crop) { return {crop.left, crop.top, crop.right, crop.bottom}; }

// What generate_crop_boxes() of Transformers gives for a picture of 57 x 43 pixels.
TEST(MaskCrops, PartsOverlapAndEndAtThePicture) {
  const std::vector<MaskCrop> crops = mask_crops(57, 43, {.layers = 2, .points_per_side = 9, .fewer_points = 2});
  ASSERT_EQ(crops.size(), 21u);
  EXPECT_EQ(edges(crops[0]), (std::array<int64_t, 4>{0, 0, 57, 43}));
  EXPECT_EQ(edges(crops[1]), (std::array<int64_t, 4>{0, 0, 36, 29}));
  EXPECT_EQ(edges(crops[2]), (std::array<int64_t, 4>{0, 15, 36, 43}));
  EXPECT_EQ(edges(crops[4]), (std::array<int64_t, 4>{22, 15, 57, 43}));
  EXPECT_EQ(edges(crops[20]), (std::array<int64_t, 4>{39, 27, 57, 43}));
  EXPECT_EQ(crops[0].points_per_side, 9);
  EXPECT_EQ(crops[4].points_per_side, 4);
  EXPECT_EQ(crops[20].points_per_side, 2);
}

TEST(MaskCrops, PointsStandInTheMiddleOfTheirPlaces) {
  const auto points = MaskCrop{10, 0, 50, 20, 2}.points();
  EXPECT_EQ(points, (std::vector<std::array<double, 2>>{{10, 5}, {30, 5}, {10, 15}, {30, 15}}));
}

TEST(MaskCrops, PicturesWithoutSoManyPartsAreRefused) {
  EXPECT_THROW(mask_crops(2, 2, {.layers = 3, .points_per_side = 8}), Error);
  EXPECT_THROW(mask_crops(90, 90, {.layers = 2, .points_per_side = 8, .fewer_points = 3}), Error);
}

// Edges within 20 pixels count, but not those of the picture itself.
TEST(MaskCrops, ObjectsThatAPartCutsOffAreKnown) {
  const MaskCrop whole{0, 0, 200, 100, 1}, part{80, 0, 200, 100, 1};
  EXPECT_FALSE(is_cut_off({0, 0, 199, 99}, whole, 200, 100));
  EXPECT_TRUE(is_cut_off({5, 30, 60, 60}, part, 200, 100));
  EXPECT_FALSE(is_cut_off({30, 30, 119, 60}, part, 200, 100));
}

}  // namespace
}  // namespace transom
