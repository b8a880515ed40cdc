// SPDX-License-Identifier: Apache-2.0
#include "models/vision_language/picture_positions.h"

#include <gtest/gtest.h>

#include "support/message.h"

namespace transom {
namespace {

using Numbers = std::vector<int64_t>;

TEST(PicturePositions, GoOnBehindTheLargerEdge) {
  // Two tokens, a picture of 1 x 3, one token, a picture of 2 x 1 right at the end.
  const TextPositions positions = picture_positions(8, {{{{.begin = 2, .count = 3}}, {.height = 1, .width = 3}},
                                                        {{{.begin = 6, .count = 2}}, {.height = 2, .width = 1}}});
  ASSERT_EQ(positions.prompt.size(), 3u);
  EXPECT_EQ(positions.prompt[0], (Numbers{0, 1, 2, 2, 2, 5, 6, 6}));
  EXPECT_EQ(positions.prompt[1], (Numbers{0, 1, 2, 2, 2, 5, 6, 7}));
  EXPECT_EQ(positions.prompt[2], (Numbers{0, 1, 2, 3, 4, 5, 6, 6}));
  EXPECT_EQ(positions.delta, 0);
  EXPECT_EQ(positions.at(1, 8), 8);
  // A square of 2 x 2 takes four places and two numbers.
  const TextPositions square = picture_positions(5, {{{{.begin = 0, .count = 4}}, {.height = 2, .width = 2}}});
  EXPECT_EQ(square.prompt[1], (Numbers{0, 0, 1, 1, 2}));
  EXPECT_EQ(square.delta, -2);
  EXPECT_EQ(square.at(0, 5), 3);
}

TEST(PicturePositions, AreInOrderWithoutPictures) {
  const TextPositions positions = picture_positions(3, {});
  for (const Numbers& axis : positions.prompt) EXPECT_EQ(axis, (Numbers{0, 1, 2}));
  EXPECT_EQ(positions.delta, 0);
}

TEST(PicturePositions, RefuseTokensAmongThePlacesOfAPicture) {
  EXPECT_NE(test::message_of([] {
              picture_positions(5, {{{{.begin = 0, .count = 2}, {.begin = 3, .count = 2}}, {.height = 2, .width = 2}}});
            }).find("side by side"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
