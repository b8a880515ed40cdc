// SPDX-License-Identifier: Apache-2.0
// The ids that VitsTokenizer of Transformers 5.24 gives.
#include <gtest/gtest.h>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/temporary_folder.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

Tokenizer tokenizer_of(const std::vector<std::string>& tokens, Json config) {
  const test::TemporaryFolder folder;
  Json vocabulary = Json::object();
  for (size_t i = 0; i < tokens.size(); ++i) vocabulary[tokens[i]] = i;
  config["tokenizer_class"] = "VitsTokenizer";
  config["unk_token"] = "<unk>";
  write_file(folder / "vocab.json", dump_json(vocabulary));
  write_file(folder / "tokenizer_config.json", dump_json(config));
  return Tokenizer::from_pretrained(folder.string());
}

using Ids = std::vector<int64_t>;

// A token of padding that is a letter is found as the special token that it is, without blanks around it.
TEST(VitsTokenizer, PutsBlanksBetweenLettersThatItHas) {
  const Tokenizer tokenizer = tokenizer_of({"k", "a", "b", "c", "d", "e", "o", " ", "'", "-"},
                                           {{"pad_token", "k"}, {"phonemize", false}, {"language", "eng"}});
  const Ids book{0, 6, 0, 0, 0, 7, 0, 1, 0, 7, 0, 2, 0, 6, 0, 6, 0, 0};
  EXPECT_EQ(tokenizer.encode("OK, a Book!").ids, book);
  EXPECT_EQ(tokenizer.decode(book), "ok a book");
  EXPECT_EQ(tokenizer.encode(" AB  \u021b ").ids, (Ids{0, 1, 0, 2, 0}));
  EXPECT_EQ(tokenizer.encode("<pad>ab<unk>a").ids, (Ids{0, 1, 0, 4, 0, 1, 0, 2, 0, 0, 0, 1, 0}));
  EXPECT_EQ(tokenizer.encode("").ids, Ids{});
}

TEST(VitsTokenizer, WritesRomanianAsTheVocabulariesHaveIt) {
  const Tokenizer tokenizer = tokenizer_of({"<pad>", "a", "b", "c", "\u0163", "A", "o", " ", "'", "-"},
                                           {{"pad_token", "<pad>"}, {"phonemize", false}, {"language", "ron"}});
  EXPECT_EQ(tokenizer.encode("OK, a Book!").ids, (Ids{0, 6, 0, 7, 0, 1, 0, 7, 0, 2, 0, 6, 0, 6, 0}));
  EXPECT_EQ(tokenizer.encode(" AB  \u021b ").ids, (Ids{0, 5, 0, 2, 0, 7, 0, 7, 0, 4, 0}));
}

TEST(VitsTokenizer, LeavesTextsAsTheyAreWithoutNormalisation) {
  const Tokenizer tokenizer =
      tokenizer_of({"<pad>", "a", "b", "c", "\u0163", "A", "o", " ", "'", "-", "<unk>"},
                   {{"pad_token", "<pad>"}, {"phonemize", false}, {"normalize", false}, {"add_blank", false}});
  EXPECT_EQ(tokenizer.encode(" AB  \u021b ").ids, (Ids{7, 5, 10, 7, 7, 10, 7}));
  EXPECT_EQ(tokenizer.encode("<pad>ab<unk>a").ids, (Ids{0, 1, 2, 10, 1}));
}

}  // namespace
}  // namespace transom
