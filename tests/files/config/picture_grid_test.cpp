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

// As LlavaOnevisionProcessor counts with a part of 27 x 27 places.
TEST(PictureGrid, LosesPlacesBeyondThoseOfSomeParts) {
  const std::vector<PictureSize> all = onevision_resolutions();
  EXPECT_EQ(all.size(), 36u);
  struct Kept {
    PictureSize picture;
    int64_t most;
    PictureSize expected;
  };
  for (const Kept& each : {Kept{{480, 640}, 9, {40, 54}}, Kept{{2000, 2000}, 9, {81, 81}}, Kept{{5, 121}, 1, {1, 27}},
                           Kept{{2000, 3000}, 2, {31, 46}}, Kept{{480, 640}, 0, {40, 54}}}) {
    const PictureSize best = best_resolution(each.picture, all);
    const GridInside inside = inside_of_grid(each.picture, {best.height / 384 * 27, best.width / 384 * 27});
    const PictureSize kept = fewer_places(inside, 27, each.most);
    EXPECT_EQ(kept.height, each.expected.height) << each.picture.width;
    EXPECT_EQ(kept.width, each.expected.width) << each.picture.width;
  }
  const auto most_of = [](const char* json) { return most_of_aspect_ratio(Config::parse(json, "a test")); };
  EXPECT_EQ(most_of("{}"), 9);
  EXPECT_EQ(most_of(R"({"vision_aspect_ratio": "anyres_max_12"})"), 12);
  for (const char* other : {R"({"vision_aspect_ratio": "anyres"})", R"({"vision_aspect_ratio": "anyres_max_0"})",
                            R"({"vision_aspect_ratio": "anyres_max_9x"})", R"({"vision_aspect_ratio": "square"})"})
    EXPECT_NE(test::message_of([&] { most_of(other); }).find("expected \"anyres_max_N\""), std::string::npos) << other;
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
