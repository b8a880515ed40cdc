// SPDX-License-Identifier: Apache-2.0
#include "work/generation/search/beams.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/threads/threads.h"
#include "work/generation/search/score_rows.h"

namespace transom {
namespace {

using EarlyStopping = GenerationConfig::EarlyStopping;

constexpr size_t kLargeVocabulary = 4096;  // threads share its rows

constexpr float kLow = -1.0e9f;  // of what is not to be chosen; finite, so that such ones keep their order

// The `count` largest of the scores, falling. Equal ones come as torch.topk leaves them, which selects in these two
// ways: tokens that are forced together are equal.
std::vector<size_t> largest(const std::vector<float>& scores, size_t count) {
  if (std::optional<std::vector<size_t>> places = clearly_highest(scores, count)) return *std::move(places);
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  count = std::min(count, order.size());
  const auto higher = [&](size_t a, size_t b) {
    return (std::isnan(scores[a]) && !std::isnan(scores[b])) || scores[a] > scores[b];
  };
  const auto end = order.begin() + static_cast<ptrdiff_t>(count);
  if (count * 64 <= order.size()) {
    std::partial_sort(order.begin(), end, order.end(), higher);
  } else if (count > 0) {
    std::nth_element(order.begin(), end - 1, order.end(), higher);
    std::sort(order.begin(), end - 1, higher);
  }
  order.resize(count);
  return order;
}

// The `count` beams of the highest scores.
std::vector<Beam> best(std::vector<Beam> beams, size_t count) {
  std::vector<float> scores;
  for (const Beam& beam : beams) scores.push_back(beam.score);
  std::vector<Beam> chosen;
  for (const size_t place : largest(scores, count)) chosen.push_back(std::move(beams[place]));
  return chosen;
}

// `count` places drawn without putting them back.
std::vector<size_t> drawn(std::vector<float> scores, size_t count, Mt19937& random) {
  std::vector<size_t> places;
  while (places.size() < count) {
    if (*std::max_element(scores.begin(), scores.end()) == -std::numeric_limits<float>::infinity())
      fail("sampling with beams: fewer than {} tokens are possible; raise top_k or top_p", count);
    places.push_back(draw(scores, random));
    scores[places.back()] = -std::numeric_limits<float>::infinity();
  }
  return places;
}

}  // namespace

Beams::Beams(const GenerationConfig& config, const Stopping& stopping, int64_t max_length, TokenIds prompt)
    : config_(config),
      stopping_(stopping),
      beams_(static_cast<size_t>(config.num_beams)),
      candidates_(std::max<size_t>(2, 1 + stopping.ends_count()) * beams_),
      prompt_length_(prompt.size()),
      max_length_(max_length) {
  running_.assign(beams_, {prompt, kLow, false, 0});
  running_[0].score = 0;  // the others would only repeat it
  finished_.assign(beams_, {std::move(prompt), kLow, false, 0});
}

void Beams::advance(std::span<const float> logits, size_t V, const std::vector<LogitsProcessor>& processors,
                    size_t prompt, Mt19937& random) {
  // What each beam's next token would bring its score to: [num_beams V].
  std::vector<float> totals(beams_ * V), probabilities(logits.begin(), logits.end());
  const size_t rows = first_ ? 1 : beams_;
  probabilities.resize(rows * V);
  const auto row_of = [&](size_t row) { return std::span(probabilities).subspan(row * V, V); };
  if (V < kLargeVocabulary)
    for (size_t row = 0; row < rows; ++row) log_softmax(row_of(row));
  else parallel_for(rows, [&](size_t row) { log_softmax(row_of(row)); });
  // All beams begin with the same row; processors write to it.
  probabilities.resize(beams_ * V);
  for (size_t b = rows; b < beams_; ++b) std::copy_n(probabilities.begin(), V, row_of(b).begin());
  for (size_t b = 0; b < beams_; ++b) {
    const std::span<float> own = row_of(b);
    for (const LogitsProcessor& process : processors) process({running_[b].tokens, prompt, own});
    for (size_t i = 0; i < V; ++i) totals[b * V + i] = own[i] + running_[b].score;
  }
  first_ = false;
  const std::vector<size_t> places =
      config_.do_sample ? drawn(totals, candidates_, random) : largest(totals, candidates_);
  std::vector<Beam> next, finished = finished_;
  const auto follow = [&](size_t place) {
    const Beam& from = running_[place / V];
    Beam beam{from.tokens, totals[place], false, place / V, from.logprobs};
    beam.tokens.push_back(static_cast<int64_t>(place % V));
    return beam;
  };
  for (const size_t place : places) next.push_back(follow(place));
  if (kept_logprobs_) note_logprobs(probabilities, V, places, next);
  all_ended_ = true;
  const bool full = config_.early_stopping == EarlyStopping::kTrue && all_finished();
  const double length =
      std::pow(static_cast<double>(running_[0].tokens.size() + 1 - prompt_length_), config_.length_penalty);
  for (size_t i = 0; i < next.size(); ++i) {
    Beam& beam = next[i];
    const bool ends = stopping_.ends(beam.tokens);
    all_ended_ = all_ended_ && ends;
    // Only the best num_beams may finish; the rest is there so that enough go on. What may not has its place among
    // the others, as equal scores are chosen by their places.
    const bool finishes = ends && i < beams_;
    const auto barred = static_cast<float>(int{full} + int{!can_improve_} + int{!finishes});
    finished.push_back({beam.tokens, static_cast<float>(beam.score / length) + barred * kLow, finishes && barred == 0,
                        0, beam.logprobs});
    if (ends) beam.score += kLow;
  }
  running_ = best(std::move(next), beams_);
  finished_ = best(std::move(finished), beams_);
  can_improve_ = can_improve_ && may_improve();
}

void Beams::note_logprobs(const std::vector<float>& rows, size_t V, const std::vector<size_t>& places,
                          std::vector<Beam>& next) const {
  std::vector<std::optional<std::vector<std::pair<int64_t, float>>>> tops(beams_);
  for (size_t i = 0; i < places.size(); ++i) {
    const size_t row = places[i] / V;
    if (!tops[row]) tops[row] = likeliest(std::span(rows).subspan(row * V, V), *kept_logprobs_);
    next[i].logprobs.push_back(std::make_shared<const TokenLogprobs>(
        TokenLogprobs{static_cast<int64_t>(places[i] % V), rows[places[i]], *tops[row]}));
  }
}

bool Beams::all_finished() const {
  return std::all_of(finished_.begin(), finished_.end(), [](const Beam& beam) { return beam.finished; });
}

// Whether the best running beam could still overtake the worst finished one, taking its score as it is now.
bool Beams::may_improve() const {
  const bool hopes = config_.early_stopping == EarlyStopping::kNever && config_.length_penalty > 0;
  const auto length = static_cast<double>(hopes ? static_cast<size_t>(max_length_) : running_[0].tokens.size()) -
                      static_cast<double>(prompt_length_);
  const double possible = running_[0].score / std::pow(length, config_.length_penalty);
  return possible > finished_.back().score;  // kLow while there are fewer finished ones
}

bool Beams::is_over() const {
  return !can_improve_ || (all_finished() && config_.early_stopping == EarlyStopping::kTrue) || all_ended_;
}

}  // namespace transom
