// SPDX-License-Identifier: Apache-2.0
#include "work/generation/logits/logits_processors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "work/generation/search/score_rows.h"

namespace transom {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

void forbid(std::span<float> scores, int64_t id) {
  if (id >= 0 && static_cast<size_t>(id) < scores.size()) scores[static_cast<size_t>(id)] = kNever;
}

// Only these can come next.
void force(std::span<float> scores, const TokenIds& ids) {
  std::fill(scores.begin(), scores.end(), kNever);
  for (const int64_t id : ids)
    if (id >= 0 && static_cast<size_t>(id) < scores.size()) scores[static_cast<size_t>(id)] = 0;
}

// Scores of the tokens are divided by the penalty, or, below zero, multiplied (Keskar et al., "CTRL", 2019).
void penalize(std::span<float> scores, TokenIds::const_iterator begin, TokenIds::const_iterator end, double penalty) {
  for (const int64_t id : std::set<int64_t>(begin, end))
    if (id >= 0 && static_cast<size_t>(id) < scores.size()) {
      float& score = scores[static_cast<size_t>(id)];
      score = score < 0 ? score * static_cast<float>(penalty) : score / static_cast<float>(penalty);
    }
}

// Forbids what has followed the last size - 1 tokens before, in `text`.
void forbid_repeated(std::span<float> scores, const TokenIds& tokens, const TokenIds& text, int64_t size) {
  const auto context = static_cast<size_t>(size - 1);
  if (tokens.size() < context) return;
  for (size_t i = 0; i + context < text.size(); ++i)
    if (std::equal(tokens.end() - static_cast<ptrdiff_t>(context), tokens.end(),
                   text.begin() + static_cast<ptrdiff_t>(i)))
      forbid(scores, text[i + context]);
}

// Whether the row ends with all of the sequence but its last token.
bool is_about_to_follow(const TokenIds& tokens, const TokenIds& sequence) {
  const size_t before = sequence.size() - 1;
  return tokens.size() >= before &&
         std::equal(sequence.begin(), sequence.end() - 1, tokens.end() - static_cast<ptrdiff_t>(before));
}

void check_ids(const char* field, const TokenIds& ids, int64_t vocabulary) {
  for (const int64_t id : ids)
    if (id < 0 || id >= vocabulary) fail("{}: the token {} is not among the model's {}", field, id, vocabulary);
}

// Of biases for the same tokens the last counts.
void add_biases(std::vector<LogitsProcessor>& processors, const std::vector<std::pair<TokenIds, double>>& given) {
  std::map<TokenIds, double> biases;
  for (const auto& [sequence, bias] : given) biases[sequence] = bias;
  processors.push_back([biases = std::move(biases)](const ScoredRow& row) {
    for (const auto& [sequence, bias] : biases)
      if (is_about_to_follow(row.tokens, sequence) && static_cast<size_t>(sequence.back()) < row.scores.size())
        row.scores[static_cast<size_t>(sequence.back())] += static_cast<float>(bias);
  });
}

void add_repetition(std::vector<LogitsProcessor>& processors, const GenerationConfig& c, const LogitsContext& context) {
  if (c.encoder_repetition_penalty != 1 && !context.encoder_input_ids.empty())
    processors.push_back(
        [ids = context.encoder_input_ids, penalty = 1 / c.encoder_repetition_penalty](const ScoredRow& row) {
          penalize(row.scores, ids[row.prompt].begin(), ids[row.prompt].end(), penalty);
        });
  if (c.repetition_penalty != 1) {
    if (!(c.repetition_penalty > 0))
      fail("repetition_penalty: expected a number above 0, found {}", c.repetition_penalty);
    processors.push_back([padding = context.padding, penalty = c.repetition_penalty](const ScoredRow& row) {
      const int64_t skipped = padding.empty() ? 0 : padding[row.prompt];
      penalize(row.scores, row.tokens.begin() + skipped, row.tokens.end(), penalty);
    });
  }
  if (c.no_repeat_ngram_size > 0)
    processors.push_back([size = c.no_repeat_ngram_size](const ScoredRow& row) {
      forbid_repeated(row.scores, row.tokens, row.tokens, size);
    });
  if (c.encoder_no_repeat_ngram_size > 0 && !context.encoder_input_ids.empty())
    processors.push_back([size = c.encoder_no_repeat_ngram_size, ids = context.encoder_input_ids](
                             const ScoredRow& row) { forbid_repeated(row.scores, row.tokens, ids[row.prompt], size); });
}

void add_bad_words(std::vector<LogitsProcessor>& processors, const GenerationConfig& c, const LogitsContext& context) {
  std::vector<TokenIds> words;
  for (const TokenIds& word : c.bad_words_ids) {
    check_ids("bad_words_ids", word, context.vocabulary);
    // An end of the text alone is not forbidden.
    if (word.size() > 1 || std::find(c.eos_token_id.begin(), c.eos_token_id.end(), word[0]) == c.eos_token_id.end())
      words.push_back(word);
  }
  processors.push_back([words](const ScoredRow& row) {
    for (const TokenIds& word : words)
      if (is_about_to_follow(row.tokens, word)) forbid(row.scores, word.back());
  });
}

void add_lengths(std::vector<LogitsProcessor>& processors, const GenerationConfig& c, const LogitsContext& context) {
  const int64_t least =
      std::max(c.min_new_tokens ? context.prompt_length + *c.min_new_tokens : c.min_length, int64_t{0});
  if (least > 0 && !c.eos_token_id.empty())
    processors.push_back([ends = c.eos_token_id, least](const ScoredRow& row) {
      if (static_cast<int64_t>(row.tokens.size()) < least)
        for (const int64_t id : ends) forbid(row.scores, id);
    });
  if (c.forced_bos_token_id)
    processors.push_back([id = *c.forced_bos_token_id](const ScoredRow& row) {
      if (row.tokens.size() == 1) force(row.scores, {id});
    });
  if (!c.forced_decoder_ids.empty())
    processors.push_back([forced = c.forced_decoder_ids](const ScoredRow& row) {
      for (const auto& [place, id] : forced)
        if (static_cast<int64_t>(row.tokens.size()) == place) force(row.scores, {id});
    });
  if (!c.forced_eos_token_id.empty())
    processors.push_back([ids = c.forced_eos_token_id, last = context.max_length - 1](const ScoredRow& row) {
      if (static_cast<int64_t>(row.tokens.size()) == last) force(row.scores, ids);
    });
}

void add_decay(std::vector<LogitsProcessor>& processors, const GenerationConfig& c, const LogitsContext& context) {
  const auto [after, factor] = *c.exponential_decay_length_penalty;
  processors.push_back(  // each end once, however often it is named
      [start = after + context.prompt_length, factor = factor,
       ends = std::set<int64_t>(c.eos_token_id.begin(), c.eos_token_id.end())](const ScoredRow& row) {
        const auto beyond = static_cast<double>(static_cast<int64_t>(row.tokens.size()) - start);
        if (beyond <= 0) return;
        for (const int64_t id : ends) {
          if (static_cast<size_t>(id) >= row.scores.size()) continue;
          float& score = row.scores[static_cast<size_t>(id)];
          if (std::isfinite(score)) score += static_cast<float>(std::abs(score) * (std::pow(factor, beyond) - 1));
        }
      });
}

void add_suppression(std::vector<LogitsProcessor>& processors, const GenerationConfig& c,
                     const LogitsContext& context) {
  if (!c.suppress_tokens.empty())
    processors.push_back([ids = c.suppress_tokens](const ScoredRow& row) {
      for (const int64_t id : ids) forbid(row.scores, id);
    });
  if (c.begin_suppress_tokens.empty()) return;
  // The first token that is chosen freely.
  const int64_t begin = context.prompt_length + (context.prompt_length > 1 || !c.forced_bos_token_id ? 0 : 1);
  processors.push_back([ids = c.begin_suppress_tokens, begin](const ScoredRow& row) {
    if (static_cast<int64_t>(row.tokens.size()) == begin)
      for (const int64_t id : ids) forbid(row.scores, id);
  });
}

}  // namespace

void log_softmax(std::span<float> scores) {
  const float highest = highest_of(scores);
  const auto shift = static_cast<float>(std::log(sum_of_exponentials(scores, highest)));
  for (float& score : scores) score = (score - highest) - shift;
}

std::vector<LogitsProcessor> logits_processors(const GenerationConfig& c, const LogitsContext& context) {
  std::vector<LogitsProcessor> processors;
  if (!c.sequence_bias.empty()) {
    for (const auto& [sequence, bias] : c.sequence_bias) check_ids("sequence_bias", sequence, context.vocabulary);
    add_biases(processors, c.sequence_bias);
  }
  add_repetition(processors, c, context);
  if (!c.bad_words_ids.empty()) add_bad_words(processors, c, context);
  add_lengths(processors, c, context);
  if (c.remove_invalid_values)
    processors.push_back([](const ScoredRow& row) {
      constexpr float kMost = std::numeric_limits<float>::max();
      for (float& score : row.scores) score = std::isnan(score) ? 0 : std::clamp(score, -kMost, kMost);
    });
  if (c.exponential_decay_length_penalty && !c.eos_token_id.empty()) {
    check_ids("eos_token_id", c.eos_token_id, context.vocabulary);
    add_decay(processors, c, context);
  }
  add_suppression(processors, c, context);
  if (context.custom)
    processors.push_back([custom = context.custom](const ScoredRow& row) { custom(row.tokens, row.scores); });
  if (c.do_sample)
    add_logits_warpers(processors, c, c.num_beams > 1 ? std::max<size_t>(c.eos_token_id.size(), 1) + 1 : 1);
  if (c.renormalize_logits) processors.push_back([](const ScoredRow& row) { log_softmax(row.scores); });
  return processors;
}

}  // namespace transom
