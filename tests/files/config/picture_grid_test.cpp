// SPDX-License-Identifier: Apache-2.0
// Resolutions and margins of pictures in grids; the numbers are those of select_best_resolution, get_patch_output_size
// and unpad_image of Transformers.
#include "files/config/picture_grid.h"

#include <gtest/gtest.h>

#include "support/message.h"

namespace transom {
namespace {

struct Expected {
  PictureSize picture, best, fitted;
  GridInside inside;  // of patches of 14 pixels
};
constexpr Expected kExpected[] = {
    {{1, 1}, {336, 672}, {336, 336}, {0, 24, 12, 24}},       {{480, 640}, {672, 672}, {504, 672}, {6, 36, 0, 48}},
    {{333, 1000}, {336, 1008}, {336, 1008}, {0, 24, 0, 72}}, {{1200, 300}, {1008, 336}, {1008, 252}, {0, 72, 3, 18}},
    {{5, 121}, {336, 672}, {28, 672}, {11, 2, 0, 48}},       {{640, 641}, {672, 672}, {671, 672}, {0, 48, 0, 48}}};

TEST(PictureGrid, IsThatOfTransformers) {
  const std::vector<PictureSize> usual = read_resolutions(Config::parse("{}", "a test"), "image_grid_pinpoints");
  for (const Expected& each : kExpected) {
    const PictureSize best = best_resolution(each.picture, usual);
    EXPECT_EQ(best.height, each.best.height) << each.picture.width;
    EXPECT_EQ(best.width, each.best.width) << each.picture.width;
    const PictureSize fitted = fitted_into(each.picture, best);
    EXPECT_EQ(fitted.height, each.fitted.height) << each.picture.width;
    EXPECT_EQ(fitted.width, each.fitted.width) << each.picture.width;
    const GridInside inside = inside_of_grid(each.picture, {best.height / 14, best.width / 14});
    EXPECT_EQ(inside.top, each.inside.top) << each.picture.width;
    EXPECT_EQ(inside.height, each.inside.height) << each.picture.width;
    EXPECT_EQ(inside.left, each.inside.left) << each.picture.width;
    EXPECT_EQ(inside.width, each.inside.width) << each.picture.width;
  }
}

TEST(PictureGrid, RefusesWhatIsNoListOfResolutions) {
  const auto refused = [](const char* json) {
    return test::message_of([&] { read_resolutions(Config::parse(json, "a test"), "image_grid_pinpoints"); });
  };
  EXPECT_NE(refused(R"({"image_grid_pinpoints": [[336]]})").find("expected a list of [height, width]"),
            std::string::npos);
  EXPECT_NE(refused(R"({"image_grid_pinpoints": []})").find("expected a list"), std::string::npos);
  EXPECT_NE(refused(R"({"image_grid_pinpoints": [[336, -1]]})").find("expected extents from 1"), std::string::npos);
  EXPECT_NE(test::message_of([] {
              expect_multiples({{336, 500}}, 336, "a test");
            }).find("expected multiples of 336, found 500 x 336"),
            std::string::npos);
  EXPECT_NE(test::message_of([] {
              best_resolution({0, 5}, {{336, 336}});
            }).find("expected extents from 1"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
