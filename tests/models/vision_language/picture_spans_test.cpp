// SPDX-License-Identifier: Apache-2.0
#include "models/vision_language/picture_spans.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

std::vector<std::pair<int64_t, int64_t>> spans_in(const TokenIds& text) {
  std::vector<std::pair<int64_t, int64_t>> spans;
  for (const FilledPlaces& span : spans_of_token(text, 9)) spans.emplace_back(span.begin, span.end());
  return spans;
}

TEST(PictureSpans, GoToTheNextPicture) {
  using Spans = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(spans_in({1, 2, 3}), Spans());
  EXPECT_EQ(spans_in({1, 9, 2, 3}), (Spans{{1, 4}}));
  EXPECT_EQ(spans_in({9, 2, 9, 3}), (Spans{{0, 2}, {2, 4}}));
}

TEST(PictureSpans, OfPicturesSideBySideEndTogether) {
  using Spans = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(spans_in({9, 9, 2, 9, 9, 9}), (Spans{{0, 3}, {1, 3}, {3, 6}, {4, 6}, {5, 6}}));
  EXPECT_EQ(spans_in({9, 2, 9, 9, 4, 9}), (Spans{{0, 2}, {2, 5}, {3, 5}, {5, 6}}));
}

}  // namespace
}  // namespace transom
