// SPDX-License-Identifier: Apache-2.0
// What sacrebleu and rouge_score give for the same texts.
#include "work/train/metrics/translation_metrics.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "transom/error.h"

namespace transom {
namespace {

const std::vector<std::string> kReferences = {"The old woman sees 3.5 trees, doesn't she?",
                                              "Nothing is lost - it was 10-20 miles away.", "Two birds & a cat.",
                                              "Short", "A fine day.\nWe walked happily to the relational stations."};
const std::vector<std::string> kTexts = {"The old women saw 3.5 trees, didn't she?",
                                         "Nothing was lost: it was 10-20 miles off.", "Two birds & the cat sat.",
                                         "Short one", "A finely day.\nThe station relates to walking."};
using Texts = std::vector<std::string>;

TEST(TranslationMetrics, BleuIsThatOfSacrebleu) {
  EXPECT_NEAR(bleu(kReferences, kTexts), 26.212076390280036, 1e-9);
  EXPECT_NEAR(bleu(kTexts, kTexts), 100, 1e-9);
  EXPECT_NEAR(bleu(Texts{"a b x d e y g h i"}, Texts{"a b c d e f g"}), 14.759564526951554, 1e-9) << "smoothed, short";
  EXPECT_EQ(bleu(Texts{"a c", "c"}, Texts{"a b", "c"}), 0) << "no text has four words";
  EXPECT_EQ(bleu(Texts{"a"}, Texts{""}), 0);
  EXPECT_THROW(bleu(Texts{"a"}, Texts{}), Error);
}

TEST(TranslationMetrics, RougeIsThatOfRougeScore) {
  const Rouge scores = rouge(kReferences, kTexts);
  EXPECT_NEAR(scores.rouge1, 0.74, 1e-9);
  EXPECT_NEAR(scores.rouge2, 0.32103174603174606, 1e-9);
  EXPECT_NEAR(scores.rougeL, 0.6733333333333332, 1e-9);
  EXPECT_NEAR(scores.rougeLsum, 0.6733333333333332, 1e-9);
  EXPECT_EQ(rouge(Texts{"a"}, Texts{""}).rouge1, 0);
}

TEST(TranslationMetrics, ExactMatchesAreCounted) {
  EXPECT_DOUBLE_EQ(exact_match(Texts{"a", "b"}, Texts{"a", "B"}), 0.5);
  EXPECT_EQ(exact_match(Texts{}, Texts{}), 0);
}

TEST(TranslationMetrics, SentencesBecomeLines) {
  EXPECT_EQ(sentences_as_lines("It rains. Why? 3.5 mm fell."), "It rains.\nWhy?\n3.5 mm fell.");
}

}  // namespace
}  // namespace transom
