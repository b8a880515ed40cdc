// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/slow_tokenizers/ctc_vocabulary.h"

#include <gtest/gtest.h>

#include <fstream>

#include "transom/error.h"

namespace transom {
namespace {

class CtcDecoding : public testing::Test {
 protected:
  CtcDecoding() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~CtcDecoding() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }

  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("transom_ctc_") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(CtcDecoding, JoinsRepetitionsAndLeavesBlanksOut) {
  write("vocab.json", R"({"<pad>": 0, "|": 1, "A": 2, "B": 3})");
  const CtcVocabulary vocabulary = CtcVocabulary::read(folder_);
  const std::vector<int64_t> ids = {1, 2, 2, 0, 2, 1, 1, 0, 3, 9, 0};
  const auto characters = vocabulary.characters(ids);
  EXPECT_EQ(vocabulary.text(characters), "AA B<unk>");
  ASSERT_EQ(characters.size(), 6u);
  EXPECT_EQ(characters[1].begin, 1);
  EXPECT_EQ(characters[1].end, 3);
  const auto words = vocabulary.words(characters);
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[0].text, "AA");
  EXPECT_EQ(words[0].begin, 1);
  EXPECT_EQ(words[0].end, 5);
  EXPECT_EQ(words[1].text, "B<unk>");
  EXPECT_EQ(words[1].end, 10);
}

TEST_F(CtcDecoding, FollowsTheTokenizersConfiguration) {
  write("vocab.json", R"({"xx": {"_": 0, " ": 1, "A": 2}})");
  write("tokenizer_config.json", R"({"target_lang": "xx", "pad_token": {"content": "_"}, "do_lower_case": true,
    "word_delimiter_token": " ", "replace_word_delimiter_char": "-"})");
  const CtcVocabulary vocabulary = CtcVocabulary::read(folder_);
  const std::vector<int64_t> ids = {2, 0, 1, 2};
  EXPECT_EQ(vocabulary.text(vocabulary.characters(ids)), "a-a");
}

TEST_F(CtcDecoding, RefusesWhatIsNoVocabulary) {
  EXPECT_THROW(CtcVocabulary::read(folder_), Error);
  write("vocab.json", R"({"A": -1})");
  EXPECT_THROW(CtcVocabulary::read(folder_), Error);
  write("vocab.json", R"({"A": 99999999999})");
  EXPECT_THROW(CtcVocabulary::read(folder_), Error);
}

}  // namespace
}  // namespace transom
