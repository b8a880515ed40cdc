// SPDX-License-Identifier: Apache-2.0
// Proteins as ESM's tokenizer cuts them: at each token of its vocabulary, with or without spaces.
#include <gtest/gtest.h>

#include "base/files/files.h"
#include "support/temporary_folder.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

using Ids = std::vector<int64_t>;

class EsmTokenizer : public testing::Test {
 protected:
  EsmTokenizer() {
    write_file(folder_.path() / "vocab.txt", "<cls>\n<pad>\n<eos>\n<unk>\nL\nA\nG\n.\n-\n<null_1>\n<mask>");
    write_file(folder_.path() / "tokenizer_config.json", R"({"tokenizer_class": "EsmTokenizer"})");
  }
  Ids ids(const std::string& text) const {
    return Tokenizer::from_pretrained(folder_.path().string()).encode(text).ids;
  }

  test::TemporaryFolder folder_;
};

TEST_F(EsmTokenizer, CutsAtEachLetter) {
  EXPECT_EQ(ids("LAG"), (Ids{0, 4, 5, 6, 2}));
  EXPECT_EQ(ids(" L A\n\tG "), (Ids{0, 4, 5, 6, 2}));
  EXPECT_EQ(ids("L.-A"), (Ids{0, 4, 7, 8, 5, 2}));
}

TEST_F(EsmTokenizer, ReadsItsMarksWithinTexts) {
  EXPECT_EQ(ids("L<mask>A<mask><null_1>"), (Ids{0, 4, 10, 5, 10, 9, 2}));
  EXPECT_EQ(ids("<cls>L<eos>"), (Ids{0, 0, 4, 2, 2}));
}

// What is between tokens and spaces is one unknown token, however long it is.
TEST_F(EsmTokenizer, JoinsWhatItDoesNotKnow) {
  EXPECT_EQ(ids("LxyzA"), (Ids{0, 4, 3, 5, 2}));
  EXPECT_EQ(ids("x yz1 L"), (Ids{0, 3, 3, 4, 2}));
  EXPECT_EQ(ids(""), (Ids{0, 2}));
}

TEST_F(EsmTokenizer, PairsHaveAnEndEach) {
  const Tokenizer tokenizer = Tokenizer::from_pretrained(folder_.path().string());
  EXPECT_EQ(tokenizer.encode("L", "A").ids, (Ids{0, 4, 2, 5, 2}));
}

}  // namespace
}  // namespace transom
