// SPDX-License-Identifier: Apache-2.0
#include "text/aligned_text.h"

#include <gtest/gtest.h>

#include "text/unicode.h"

namespace transom::text {
namespace {

TEST(Unicode, RepairsEachMaximalBadPart) {
  EXPECT_EQ(repaired_utf8("a\xFF"
                          "b\xE2\x82"
                          "c"),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD"
            "c");
  EXPECT_EQ(repaired_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // a surrogate
  EXPECT_EQ(repaired_utf8("h\xC3\xA9"), "h\xC3\xA9");
}

TEST(AlignedText, AnUnchangedByteComesFromItsCharacter) {
  AlignedText text;
  text.reset("h\xC3\xA9");
  EXPECT_EQ(text.source(2).begin, 1u);
  EXPECT_EQ(text.source(2).end, 3u);
}

TEST(AlignedText, InsertedCharactersComeFromTheOneBefore) {
  AlignedText text;
  text.reset("ab");
  text.rewrite([&](const Piece& piece, AlignedWriter& writer) {
    text.write_changes(piece, {{'_', 1}, {'a', 0}, {'+', 1}, {'b', 0}}, writer);
  });
  EXPECT_EQ(text.all(), "_a+b");
  EXPECT_EQ(text.source(0).end, 0u);
  EXPECT_EQ(text.source(2).begin, 0u);
  EXPECT_EQ(text.source(3).begin, 1u);
}

TEST(AlignedText, SplitsAroundTokensAndDropsEmptyParts) {
  AlignedText text;
  text.reset("ab cd");
  text.split([](const Piece& piece, auto emit) {
    emit(piece.begin, piece.begin);
    emit(piece.begin, piece.begin + 2, 7);
    emit(piece.begin + 3, piece.end);
  });
  ASSERT_EQ(text.pieces().size(), 2u);
  EXPECT_TRUE(text.pieces()[0].is_token());
  EXPECT_EQ(text.view(text.pieces()[1]), "cd");
  EXPECT_EQ(text.pieces()[1].origin, 3u);
}

}  // namespace
}  // namespace transom::text
