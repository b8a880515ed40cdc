// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/drafts/draft_pace.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace transom {
namespace {

constexpr double kDecay = 0.98, kDecayOfText = 0.85;
// Before there are counts: most drafts are right, so that they are tried.
constexpr double kAcceptedAtFirst = 1.5, kComparedAtFirst = 2;
constexpr double kWeightOfOthers = 3;  // tokens of other texts in the chance of a text
constexpr double kMargin = 1.03;       // that drafts must gain, as times are never exact
// A text without a draft beside others that have some: its step may take so much longer.
constexpr double kMostForOthers = 1.15;
constexpr int64_t kFirstRest = 8, kLongestRest = 256;  // steps
constexpr int64_t kOneOfNew = 8;                       // texts
constexpr int64_t kProbe = 2;                          // tokens

// Sizes of steps with drafts, of which each is a program.
bool is_size(int64_t tokens) {
  if (tokens <= 4) return true;
  const auto step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(tokens))) / 2;
  return tokens % step == 0;
}

int64_t kind_of(const Draft& draft) {
  return static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(std::clamp<int64_t>(draft.matched, 0, 64))));
}

struct Next {
  double value;  // how likely this token and all before it are right
  size_t draft;
  bool operator<(const Next& other) const { return value != other.value ? value < other.value : draft > other.draft; }
};

}  // namespace

void DraftPace::Rate::note(int64_t right, int64_t seen, double decay) {
  accepted = accepted * decay + static_cast<double>(right);
  compared = compared * decay + static_cast<double>(seen);
}

double DraftPace::chance(const Draft& draft) const {
  double accepted = kAcceptedAtFirst, compared = kComparedAtFirst;
  if (const auto known = rates_.find(kind_of(draft)); known != rates_.end())
    accepted += known->second.accepted, compared += known->second.compared;
  const double others = accepted / compared;
  const auto text = texts_.find(draft.sequence);
  if (text == texts_.end()) return others;
  return (text->second.rate.accepted + kWeightOfOthers * others) / (text->second.rate.compared + kWeightOfOthers);
}

double DraftPace::seconds(int64_t tokens, int64_t longest) const {
  return steps_.of(tokens) + drafting_ * static_cast<double>(longest);
}

std::vector<int64_t> DraftPace::all(std::span<const Draft> drafts, int64_t left) const {
  std::vector<int64_t> counts(drafts.size(), 0);
  bool more = true;
  while (more && left > 0) {  // one of each in turn
    more = false;
    for (size_t i = 0; i < drafts.size() && left > 0; ++i)
      if (counts[i] < drafts[i].most) ++counts[i], --left, more = true;
  }
  return counts;
}

// Tokens by their chances, the likeliest first; how many of these give most tokens a second.
std::vector<int64_t> DraftPace::best(std::span<const Draft> drafts, int64_t rows, int64_t left) {
  std::vector<Next> heap;
  std::vector<double> chances;
  for (size_t i = 0; i < drafts.size(); ++i) {
    chances.push_back(chance(drafts[i]));
    const OfText& text = texts_[drafts[i].sequence];
    if (drafts[i].most > 0 && text.rest == 0) heap.push_back({chances[i], i});
  }
  std::make_heap(heap.begin(), heap.end());
  std::vector<int64_t> counts(drafts.size(), 0), chosen = counts;
  const double plain = seconds(rows, 0), again = static_cast<double>(again_) * steps_.of_one_more();
  double expected = static_cast<double>(rows), refused = 0;
  double most = kMargin * expected / plain;
  int64_t longest = 0, tokens = rows, with = 0;
  while (!heap.empty() && tokens - rows < left) {
    std::pop_heap(heap.begin(), heap.end());
    const Next next = heap.back();
    heap.pop_back();
    int64_t& count = counts[next.draft];
    if (count == 0) ++with;
    refused += next.value / chances[next.draft] - next.value;  // right until now, and wrong here
    ++count, ++tokens, expected += next.value, longest = std::max(longest, count);
    if (count < drafts[next.draft].most) {
      heap.push_back({next.value * chances[next.draft], next.draft});
      std::push_heap(heap.begin(), heap.end());
    }
    if (!heap.empty() && !is_size(tokens)) continue;
    const double time = seconds(tokens, longest) + refused * again;
    if (with < rows && time > kMostForOthers * plain) continue;
    if (expected / time > most) most = expected / time, chosen = counts;
  }
  return chosen;
}

std::vector<int64_t> DraftPace::worth(std::span<const Draft> drafts, int64_t rows, int64_t left) {
  if (!measured_) return all(drafts, left);
  if (!knows(rows)) return std::vector<int64_t>(drafts.size(), 0);
  std::vector<int64_t> counts = best(drafts, rows, left);
  for (const int64_t count : counts) left -= count;
  for (size_t i = 0; i < drafts.size(); ++i) {
    OfText& text = texts_[drafts[i].sequence];
    if (counts[i] > 0 || drafts[i].most <= 0) continue;
    if (text.rest > 0) {
      --text.rest;
      continue;
    }
    // Not worth it: some steps without, then a short one; of some new texts a short one at once, since others may have
    // been unlike them.
    if (text.next_rest == 0 && ++not_worth_ % kOneOfNew == 0) text.probes = true;
    if (!text.probes) {
      text.next_rest = text.next_rest == 0 ? kFirstRest : std::min(2 * text.next_rest, kLongestRest);
      text.rest = text.next_rest, text.probes = true;
    } else if (left > 0) {
      counts[i] = std::min({drafts[i].most, kProbe, left});
      left -= counts[i], text.probes = false;
    }
  }
  return counts;
}

void DraftPace::note_drafting(int64_t longest, double seconds) {
  if (!measured_ || longest <= 0) return;
  const double each = seconds / static_cast<double>(longest);
  if (!std::exchange(has_drafted_, true)) return;  // programs were compiled
  if (drafting_ == 0) drafting_ = each;
  drafting_ += (std::min(each, 4 * drafting_) - drafting_) / (each < drafting_ ? 4 : 16);
}

void DraftPace::note_result(const Draft& draft, int64_t drafted, int64_t accepted) {
  if (!measured_) return;
  const int64_t compared = std::min(accepted + 1, drafted);
  rates_[kind_of(draft)].note(accepted, compared, kDecay);
  OfText& text = texts_[draft.sequence];
  text.rate.note(accepted, compared, kDecayOfText);
  if (accepted > 0) text.next_rest = std::max<int64_t>(text.next_rest / 2, kFirstRest);
}

}  // namespace transom
