// SPDX-License-Identifier: Apache-2.0
// Beam search as Transformers 5 does it: for each prompt num_beams running texts and the num_beams best finished ones.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "generation/search.h"

namespace transom {
namespace {

using EarlyStopping = GenerationConfig::EarlyStopping;

constexpr float kLow = -1.0e9f;  // of what is not to be chosen; finite, so that such ones keep their order

struct Beam {
  TokenIds tokens;
  float score = kLow;  // sum of logarithms of probabilities; of finished ones divided by length^length_penalty
  bool finished = false;
  size_t source = 0;  // which running beam it goes on from
};

// The `count` largest of the scores, falling. Equal ones come as torch.topk leaves them, which selects in these two
// ways: tokens that are forced together are equal.
std::vector<size_t> largest(const std::vector<float>& scores, size_t count) {
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

// The beams of one prompt.
struct Prompt {
  std::vector<Beam> running, finished;
  bool can_improve = true;
  bool all_ended = false;  // at the last step
};

class BeamSearch {
 public:
  explicit BeamSearch(Search& search)
      : s_(search),
        beams_(static_cast<size_t>(s_.config.num_beams)),
        candidates_(std::max<size_t>(2, 1 + s_.stopping.ends_count()) * beams_),
        prompt_length_(s_.rows.at(0).size()) {
    for (const TokenIds& row : s_.rows) {
      Prompt& prompt = prompts_.emplace_back();
      prompt.running.assign(beams_, {.tokens = row});
      prompt.running[0].score = 0;  // the others would only repeat it
      prompt.finished.assign(beams_, {.tokens = row});
    }
  }

  GenerationOutput run() {
    std::vector<float> scores = s_.decoding.next(s_.rows);
    for (bool first = true;; first = false) {
      const auto V = static_cast<size_t>(s_.decoding.vocabulary());
      for (size_t p = 0; p < prompts_.size(); ++p) advance(p, scores, V, first);
      if (is_over()) break;
      if (first) s_.decoding.repeat(static_cast<int64_t>(beams_));
      s_.decoding.reorder(sources());
      scores = s_.decoding.next(rows());
    }
    return output();
  }

 private:
  void advance(size_t p, const std::vector<float>& scores, size_t V, bool first) {
    Prompt& prompt = prompts_[p];
    // What each beam's next token would bring its score to: [num_beams V].
    std::vector<float> totals;
    totals.reserve(beams_ * V);
    for (size_t b = 0; b < beams_; ++b) {
      const size_t row = first ? p : p * beams_ + b;
      std::vector<float> own(scores.begin() + static_cast<ptrdiff_t>(row * V),
                             scores.begin() + static_cast<ptrdiff_t>((row + 1) * V));
      log_softmax(own);
      for (const LogitsProcessor& process : s_.processors) process({prompt.running[b].tokens, p, own});
      for (const float score : own) totals.push_back(score + prompt.running[b].score);
    }
    const std::vector<size_t> places =
        s_.config.do_sample ? drawn(totals, candidates_, s_.random) : largest(totals, candidates_);
    std::vector<Beam> next, finished = prompt.finished;
    prompt.all_ended = true;
    const bool full = s_.config.early_stopping == EarlyStopping::kTrue && all_finished(prompt);
    const double length =
        std::pow(static_cast<double>(prompt.running[0].tokens.size() + 1 - prompt_length_), s_.config.length_penalty);
    for (size_t i = 0; i < places.size(); ++i) {
      Beam beam{prompt.running[places[i] / V].tokens, totals[places[i]], false, places[i] / V};
      beam.tokens.push_back(static_cast<int64_t>(places[i] % V));
      const bool ends = s_.stopping.ends(beam.tokens);
      prompt.all_ended = prompt.all_ended && ends;
      // Only the best num_beams may finish; the rest is there so that enough go on. What may not has its place among
      // the others, as equal scores are chosen by their places.
      const bool finishes = ends && i < beams_;
      const auto barred = static_cast<float>(int{full} + int{!prompt.can_improve} + int{!finishes});
      finished.push_back(
          {beam.tokens, static_cast<float>(beam.score / length) + barred * kLow, finishes && barred == 0, 0});
      if (ends) beam.score += kLow;
      next.push_back(std::move(beam));
    }
    prompt.running = best(std::move(next), beams_);
    prompt.finished = best(std::move(finished), beams_);
    prompt.can_improve = prompt.can_improve && may_improve(prompt);
  }

  static bool all_finished(const Prompt& prompt) {
    return std::all_of(prompt.finished.begin(), prompt.finished.end(), [](const Beam& beam) { return beam.finished; });
  }

  // Whether the best running beam could still overtake the worst finished one, taking its score as it is now.
  bool may_improve(const Prompt& prompt) const {
    const bool hopes = s_.config.early_stopping == EarlyStopping::kNever && s_.config.length_penalty > 0;
    const auto length =
        static_cast<double>(hopes ? static_cast<size_t>(s_.max_length) : prompt.running[0].tokens.size()) -
        static_cast<double>(prompt_length_);
    const double possible = prompt.running[0].score / std::pow(length, s_.config.length_penalty);
    return possible > prompt.finished.back().score;  // kLow while there are fewer finished ones
  }

  bool is_over() const {
    bool any_can_improve = false, all_done = true, all_ended = true;
    for (const Prompt& prompt : prompts_) {
      any_can_improve = any_can_improve || prompt.can_improve;
      all_done = all_done && all_finished(prompt);
      all_ended = all_ended && prompt.all_ended;
    }
    return !any_can_improve || (all_done && s_.config.early_stopping == EarlyStopping::kTrue) || all_ended;
  }

  std::vector<TokenIds> rows() const {
    std::vector<TokenIds> result;
    for (const Prompt& prompt : prompts_)
      for (const Beam& beam : prompt.running) result.push_back(beam.tokens);
    return result;
  }
  std::vector<int64_t> sources() const {
    std::vector<int64_t> result;
    for (size_t p = 0; p < prompts_.size(); ++p)
      for (const Beam& beam : prompts_[p].running) result.push_back(static_cast<int64_t>(p * beams_ + beam.source));
    return result;
  }

  GenerationOutput output() const {
    GenerationOutput result;
    size_t longest = 0;
    for (const Prompt& prompt : prompts_)
      for (size_t i = 0; i < static_cast<size_t>(s_.config.num_return_sequences); ++i) {
        result.sequences.push_back(prompt.finished[i].tokens);
        result.scores.push_back(prompt.finished[i].score);
        longest = std::max(longest, result.sequences.back().size());
      }
    for (TokenIds& row : result.sequences) row.resize(longest, s_.padding);
    return result;
  }

  Search& s_;
  size_t beams_, candidates_, prompt_length_;
  std::vector<Prompt> prompts_;
};

}  // namespace

GenerationOutput beam_search(Search search) { return BeamSearch(search).run(); }

}  // namespace transom
