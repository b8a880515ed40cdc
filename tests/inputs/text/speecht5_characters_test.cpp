// SPDX-License-Identifier: Apache-2.0
// The ids that SpeechT5Tokenizer of Transformers 5.24 gives (tests/golden/speaking/speecht5), and numbers in words.
#include "inputs/text/slow_tokenizers/speecht5_characters.h"

#include <gtest/gtest.h>

#include "base/files/files.h"
#include "base/json/json.h"
#include "inputs/text/slow_tokenizers/spelled_numbers.h"
#include "support/golden.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

TEST(SpeechT5Tokenizer, GivesTheIdsOfTransformers) {
  const fs::path folder = test::golden_folder() / "speaking" / "speecht5";
  const Tokenizer tokenizer = Tokenizer::from_pretrained((folder / "model").string());
  const Json about = read_json(folder / "case.json");
  ASSERT_EQ(about["texts"].size(), 4U);
  for (const Json& text : about["texts"]) {
    const auto ids = text["ids"].get<std::vector<int64_t>>();
    EXPECT_EQ(tokenizer.encode(text["text"].get<std::string>()).ids, ids) << text["text"];
    EXPECT_EQ(tokenizer.decode(ids), text["decoded"].get<std::string>()) << text["text"];
  }
  EXPECT_EQ(tokenizer.encode("").ids.size(), 1U);
}

std::string spelled(const std::string& text) {
  text::AlignedText aligned(text);
  const text::SpelledNumbers numbers;
  numbers.apply(aligned);
  EXPECT_EQ(aligned.bytes.size(), aligned.origin.size());
  return aligned.bytes;
}

TEST(SpelledNumbers, AreThoseOfEnglish) {
  EXPECT_EQ(spelled("I have 1,250 books"), "I have one thousand two hundred and fifty books");
  EXPECT_EQ(spelled("$12.50 or -5%"), "twelve point five zero dollars or minus five percent");
  EXPECT_EQ(spelled("10 11 19 20 21"), "ten eleven nineteen twenty twenty one");
  EXPECT_EQ(spelled("3rd a5 _3 5a"), "3rd a5 _3 5a");
  EXPECT_EQ(spelled("1000000007  x"), "one billion seven x");
  const std::string many(37, '1');
  EXPECT_EQ(spelled(many), many);
  EXPECT_EQ(spelled(""), "");
}

}  // namespace
}  // namespace transom
