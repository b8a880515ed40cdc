// SPDX-License-Identifier: Apache-2.0
// Places where they are known, and what the map of a hostile graph may hold.
#include "work/pipelines/reading/text_regions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "work/pipelines/reading/text_crop.h"

namespace transom {
namespace {

struct DrawnMap {
  int64_t width, height;
  std::vector<float> values = std::vector<float>(static_cast<size_t>(width * height), 0.0f);
  void fill(int64_t left, int64_t top, int64_t right, int64_t bottom, float value) {
    for (int64_t y = top; y <= bottom; ++y)
      for (int64_t x = left; x <= right; ++x) values[static_cast<size_t>(y * width + x)] = value;
  }
  std::vector<Quadrilateral> regions(int64_t to_width, int64_t to_height) const {
    return text_regions(values, width, height, to_width, to_height, {});
  }
};

TEST(TextRegions, GrowToWhatTheMapShowsShrunk) {
  DrawnMap map{200, 100};
  map.fill(20, 30, 120, 41, 0.9f);
  map.fill(140, 32, 180, 42, 0.8f);
  map.fill(20, 70, 60, 75, 0.35f);  // too faint on the whole
  map.fill(5, 5, 6, 6, 1.0f);       // too small
  const std::vector<Quadrilateral> found = map.regions(400, 100);
  ASSERT_EQ(found.size(), 2u);
  // 101 x 12 places, a border of one on two sides for what holds parts together; area / length * 1.6 beyond each side.
  const double grown = 101.0 * 12 / (2 * (101 + 12)) * 1.6;
  EXPECT_NEAR(found[0][0].x, 2 * (20 - grown), 3);
  EXPECT_NEAR(found[0][0].y, 30 - grown, 1.5);
  EXPECT_NEAR(found[0][2].x, 2 * (121 + grown), 3);
  EXPECT_NEAR(found[0][2].y, 42 + grown, 1.5);
  EXPECT_GT(found[1][0].x, found[0][1].x - 2 * grown);  // of one line, from left to right
}

TEST(TextRegions, OfAHostileMapAreWithinThePicture) {
  DrawnMap map{64, 64};
  for (size_t i = 0; i < map.values.size(); ++i)
    map.values[i] = i % 7 == 0   ? std::numeric_limits<float>::quiet_NaN()
                    : i % 5 == 0 ? std::numeric_limits<float>::infinity()
                                 : static_cast<float>(i % 3);
  for (const Quadrilateral& region : map.regions(10, 3000))
    for (const Point corner : region) {
      EXPECT_TRUE(corner.x >= 0 && corner.x < 10);
      EXPECT_TRUE(corner.y >= 0 && corner.y < 3000);
    }
  DrawnMap full{64, 32};
  full.fill(0, 0, 63, 31, 1.0f);
  const std::vector<Quadrilateral> all = full.regions(64, 32);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0][2].x, 63);
  EXPECT_EQ(all[0][2].y, 31);
}

TEST(TextCrops, OfUprightCornersAreTheirPixels) {
  Image image(40, 20);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * 37 % 251);
  const Image part = upright_crop(image, {Point{5, 4}, {25, 4}, {25, 14}, {5, 14}});
  ASSERT_EQ(part.width, 20);
  ASSERT_EQ(part.height, 10);
  for (int64_t y = 0; y < 10; ++y)
    for (int64_t x = 0; x < 3 * 20; ++x) EXPECT_EQ(part.row(y)[x], image.row(y + 4)[x + 15]);
  // What is higher than wide lies down, its right side up.
  const Image column = upright_crop(image, {Point{5, 2}, {10, 2}, {10, 18}, {5, 18}});
  ASSERT_EQ(column.width, 16);
  ASSERT_EQ(column.height, 5);
  for (int64_t c = 0; c < 3; ++c) EXPECT_EQ(column.row(0)[c], image.row(2)[3 * 9 + c]);
  const Image turned = upside_down(part);
  for (int64_t c = 0; c < 3; ++c) EXPECT_EQ(turned.row(0)[c], part.row(9)[3 * 19 + c]);
}

TEST(SmallestRectangles, LieAsThePointsDo) {
  const SmallestRectangle found = smallest_rectangle({{0, 0}, {4, 4}, {2, 6}, {-2, 2}, {1, 3}});
  EXPECT_NEAR(found.side, std::sqrt(8.0), 1e-9);
  EXPECT_EQ(smallest_rectangle({{3, 3}}).side, 0);
  EXPECT_EQ(smallest_rectangle({}).side, 0);
}

}  // namespace
}  // namespace transom
