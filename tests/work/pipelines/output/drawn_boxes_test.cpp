// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/output/drawn_boxes.h"

#include <gtest/gtest.h>

#include <limits>

namespace transom {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes pixel(const Picture& picture, int64_t x, int64_t y) {
  const auto& values = std::get<Bytes>(picture.values);
  const auto at = values.begin() + 3 * (y * picture.width + x);
  return {at, at + 3};
}

TEST(DrawnBoxes, StandAtTheirPlaces) {
  const Picture drawn = with_boxes(Image(60, 40), {{"cat", 0.9, {10, 20, 30, 35}}});
  ASSERT_EQ(drawn.width, 60);
  const Bytes black{0, 0, 0}, frame = pixel(drawn, 10, 28);
  EXPECT_NE(frame, black);
  for (const auto& [x, y] : {std::pair{10, 20}, {30, 35}, {30, 25}, {20, 35}}) EXPECT_EQ(pixel(drawn, x, y), frame);
  EXPECT_EQ(pixel(drawn, 20, 28), black);  // inside
  EXPECT_EQ(pixel(drawn, 31, 36), black);  // outside
}

TEST(DrawnBoxes, OfOneClassHaveOneColour) {
  const Picture drawn = with_boxes(
      Image(60, 60), {{"a", 0.9, {2, 30, 10, 40}}, {"b", 0.9, {20, 30, 28, 40}}, {"a", 0.5, {40, 30, 48, 40}}});
  EXPECT_EQ(pixel(drawn, 2, 35), pixel(drawn, 40, 35));
  EXPECT_NE(pixel(drawn, 2, 35), pixel(drawn, 20, 35));
}

// Boxes of a model may lie anywhere.
TEST(DrawnBoxes, OutsideOfThePictureAreLeftOut) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const Picture drawn = with_boxes(Image(8, 8), {{"a", 1, {-kMost, -kMost, kMost, kMost}},
                                                 {"b", 1, {kMost, kMost, kMost, kMost}},
                                                 {"c", 1, {5, 5, 1, 1}},
                                                 {std::string(5000, 'x'), 1, {0, 0, 7, 7}}});
  EXPECT_EQ(std::get<Bytes>(drawn.values).size(), size_t{3 * 8 * 8});
  EXPECT_EQ(std::get<Bytes>(with_boxes(Image(1, 1), {{"a", 1, {0, 0, 0, 0}}}).values).size(), size_t{3});
}

TEST(DrawnText, IsMadeOfDots) {
  Image image(4, 5);
  draw_text(image, 0, 0, "i", 1, {255, 255, 255});
  std::string rows;
  for (int64_t y = 0; y < 5; ++y, rows += '\n')
    for (int64_t x = 0; x < 4; ++x) rows += image.row(y)[3 * x] ? '#' : '.';
  EXPECT_EQ(rows, "###.\n.#..\n.#..\n.#..\n###.\n");
}

}  // namespace
}  // namespace transom
