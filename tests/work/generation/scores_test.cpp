// SPDX-License-Identifier: Apache-2.0
// What is done to scores before a token is chosen; the numbers are those of Transformers' processors.
#include "work/generation/logits/logits_processors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/message.h"
#include "transom/error.h"

namespace transom {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
const std::vector<float> kScores = {2.0F, 1.0F, 0.5F, 0.1F, -1.0F, -3.0F, 1.9F, 0.2F};

std::vector<float> processed(const char* options, const TokenIds& tokens, LogitsContext context = {}) {
  GenerationConfig config;
  config.update(options);
  context.vocabulary = 8;
  std::vector<float> scores = kScores;
  for (const LogitsProcessor& process : logits_processors(config, context)) process({tokens, 0, scores});
  return scores;
}

void expect_scores(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (std::isinf(expected[i])) EXPECT_EQ(got[i], expected[i]) << i;
    else EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
}

std::vector<float> without(std::initializer_list<size_t> places) {
  std::vector<float> scores = kScores;
  for (const size_t place : places) scores[place] = kNever;
  return scores;
}

TEST(Scores, StayWithoutOptions) { expect_scores(processed("{}", {1, 2, 3}), kScores); }

TEST(Scores, OfTokensThatWereThereArePenalised) {
  expect_scores(processed(R"({"repetition_penalty": 1.5})", {1, 2, 3}),
                {2.0F, 0.666667F, 0.333333F, 0.066667F, -1.0F, -3.0F, 1.9F, 0.2F});
  expect_scores(processed(R"({"repetition_penalty": 2})", {4, 4}), {2.0F, 1.0F, 0.5F, 0.1F, -2.0F, -3.0F, 1.9F, 0.2F});
  // Padding in front of a prompt was not there.
  expect_scores(processed(R"({"repetition_penalty": 1.5})", {0, 0, 1}, {.padding = {2}}),
                {2.0F, 0.666667F, 0.5F, 0.1F, -1.0F, -3.0F, 1.9F, 0.2F});
}

TEST(Scores, OfTheEncodersTokensAreRaised) {
  expect_scores(processed(R"({"encoder_repetition_penalty": 2})", {1}, {.encoder_input_ids = {{0, 4}}}),
                {4.0F, 1.0F, 0.5F, 0.1F, -0.5F, -3.0F, 1.9F, 0.2F});
}

TEST(Scores, ForbidWhatWouldRepeatAnNgram) {
  expect_scores(processed(R"({"no_repeat_ngram_size": 2})", {3, 4, 3, 5, 3}), without({4, 5}));
  expect_scores(processed(R"({"no_repeat_ngram_size": 1})", {3, 4}), without({3, 4}));
  expect_scores(processed(R"({"no_repeat_ngram_size": 3})", {3, 4}), kScores);
  expect_scores(processed(R"({"encoder_no_repeat_ngram_size": 2})", {1, 3}, {.encoder_input_ids = {{3, 6, 2}}}),
                without({6}));
}

TEST(Scores, ForbidBadWordsWhereTheyWouldEnd) {
  expect_scores(processed(R"({"bad_words_ids": [[2], [1, 3], [5, 4]]})", {0, 1}), without({2, 3}));
  // The end of the text alone is no bad word.
  expect_scores(processed(R"({"bad_words_ids": [[2], [1]], "eos_token_id": 1})", {0}), without({2}));
}

TEST(Scores, TakeABiasWhereASequenceWouldEnd) {
  expect_scores(processed(R"({"sequence_bias": [[[0], 1.5], [[1, 2], -1], [[2, 2], -9]]})", {0, 1}),
                {3.5F, 1.0F, -0.5F, 0.1F, -1.0F, -3.0F, 1.9F, 0.2F});
  // Of two for the same tokens the later one, as in a dictionary.
  expect_scores(processed(R"({"sequence_bias": [[[0], 9.5], [[1, 2], 5], [[0], 1.5], [[1, 2], -1]]})", {0, 1}),
                {3.5F, 1.0F, -0.5F, 0.1F, -1.0F, -3.0F, 1.9F, 0.2F});
}

TEST(Scores, LetNoTextEndTooEarly) {
  expect_scores(processed(R"({"min_new_tokens": 3, "eos_token_id": [4, 5]})", {1, 1, 1, 1}, {.prompt_length = 2}),
                without({4, 5}));
  expect_scores(processed(R"({"min_new_tokens": 2, "eos_token_id": 4})", {1, 1, 1, 1}, {.prompt_length = 2}), kScores);
  expect_scores(processed(R"({"min_length": 5, "eos_token_id": 4})", {1, 1, 1, 1}), without({4}));
}

TEST(Scores, ForceTokensAtTheirPlaces) {
  const std::vector<float> only_3 = {kNever, kNever, kNever, 0, kNever, kNever, kNever, kNever};
  expect_scores(processed(R"({"forced_bos_token_id": 3})", {1}), only_3);
  expect_scores(processed(R"({"forced_bos_token_id": 3})", {1, 2}), kScores);
  expect_scores(processed(R"({"forced_eos_token_id": 3})", {1, 2}, {.max_length = 3}), only_3);
  expect_scores(processed(R"({"forced_decoder_ids": [[1, 5], [2, 3]]})", {1, 5}), only_3);
}

TEST(Scores, AreSuppressedAlwaysOrAtTheBeginning) {
  expect_scores(processed(R"({"suppress_tokens": [1, 7]})", {1, 2}), without({1, 7}));
  expect_scores(processed(R"({"begin_suppress_tokens": [1]})", {1, 2}, {.prompt_length = 2}), without({1}));
  expect_scores(processed(R"({"begin_suppress_tokens": [1]})", {1, 2, 3}, {.prompt_length = 2}), kScores);
  // A forced first token is no beginning.
  expect_scores(processed(R"({"begin_suppress_tokens": [1], "forced_bos_token_id": 2})", {0, 2}, {.prompt_length = 1}),
                without({1}));
}

TEST(Scores, OfTheEndGrow) {
  expect_scores(processed(R"({"exponential_decay_length_penalty": [1, 1.5], "eos_token_id": 4})", {1, 2, 3},
                          {.prompt_length = 1}),
                {2.0F, 1.0F, 0.5F, 0.1F, -0.5F, -3.0F, 1.9F, 0.2F});
  // An end that is named twice is one end.
  expect_scores(processed(R"({"exponential_decay_length_penalty": [1, 1.5], "eos_token_id": [4, 4]})", {1, 2, 3},
                          {.prompt_length = 1}),
                {2.0F, 1.0F, 0.5F, 0.1F, -0.5F, -3.0F, 1.9F, 0.2F});
}

TEST(Scores, BecomeLogarithmsOfProbabilities) {
  expect_scores(processed(R"({"renormalize_logits": true})", {1}),
                {-1.05335F, -2.05335F, -2.55335F, -2.95335F, -4.053349F, -6.053349F, -1.15335F, -2.85335F});
}

TEST(Scores, AreDividedByTheTemperature) {
  expect_scores(processed(R"({"do_sample": true, "temperature": 0.7, "top_k": 0})", {1}),
                {2.857143F, 1.428571F, 0.714286F, 0.142857F, -1.428571F, -4.285714F, 2.714286F, 0.285714F});
}

TEST(Scores, AreNarrowedForSampling) {
  const auto narrowed = [](const std::string& option) {
    return processed((R"({"do_sample": true, "top_k": 0, )" + option + "}").c_str(), {1});
  };
  expect_scores(processed(R"({"do_sample": true, "top_k": 3})", {1}), without({2, 3, 4, 5, 7}));
  expect_scores(narrowed(R"("top_p": 0.7)"), without({2, 3, 4, 5, 7}));
  expect_scores(narrowed(R"("min_p": 0.3)"), without({2, 3, 4, 5, 7}));
  expect_scores(narrowed(R"("typical_p": 0.5)"), without({2, 3, 4, 5, 7}));
  expect_scores(narrowed(R"("typical_p": 0.9)"), without({3, 4, 5}));
  expect_scores(narrowed(R"("epsilon_cutoff": 0.1)"), without({2, 3, 4, 5, 7}));
  expect_scores(narrowed(R"("eta_cutoff": 0.3)"), without({2, 3, 4, 5, 7}));
  expect_scores(narrowed(R"("eta_cutoff": 0.05)"), without({4, 5}));
  // Beams need a token for each end of a text, and one more.
  expect_scores(narrowed(R"("top_p": 0.7, "num_beams": 2, "eos_token_id": [1, 2, 3, 4])"), without({3, 4, 5}));
}

TEST(Scores, OutOfRangeOptionsAreNamed) {
  for (const char* options :
       {R"({"do_sample": true, "temperature": 0})", R"({"do_sample": true, "top_p": 1.5})",
        R"({"do_sample": true, "top_k": -1})", R"({"repetition_penalty": 0})", R"({"bad_words_ids": [[8]]})"})
    EXPECT_THROW(processed(options, {1}), Error) << options;
}

}  // namespace
}  // namespace transom
