// SPDX-License-Identifier: Apache-2.0
// How many tokens of drafts are worth their time: a step takes those by which most tokens a second are to be expected,
// from how many were accepted of earlier drafts and what steps of that size took.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "work/generation/engine/drafts/draft.h"
#include "work/generation/engine/drafts/pass_times.h"

namespace transom {

class DraftPace {
 public:
  // Not `measured`: all that there is room for is worth it. `again`: tokens that are computed anew where a draft is
  // refused, of models that keep states.
  DraftPace(bool measured, int64_t again) : measured_(measured), again_(again) {}

  // Of each draft how many of its `most` tokens a step of `rows` texts takes, beside `rows` tokens that need none, with
  // `left` tokens at most. Texts whose drafts lose get none for some steps, then a short one to see if that has
  // changed.
  std::vector<int64_t> worth(std::span<const Draft> drafts, int64_t rows, int64_t left);
  // Whether it is known what a step of so many texts takes without drafts. Until then there are none.
  bool knows(int64_t rows) const { return !measured_ || steps_.knows(rows); }
  // A step of one token of each text and their drafts.
  void note_step(int64_t tokens, double seconds) {
    if (measured_) steps_.note(tokens, seconds);
  }
  // What it took to make drafts whose longest has so many tokens.
  void note_drafting(int64_t longest, double seconds);
  void note_result(const Draft& draft, int64_t drafted, int64_t accepted);
  void forget(const Sequence& sequence) { texts_.erase(&sequence); }

 private:
  // Decaying counts of tokens that were compared with what was written.
  struct Rate {
    double accepted = 0, compared = 0;
    void note(int64_t right, int64_t seen, double decay);
  };
  struct OfText {
    Rate rate;
    int64_t rest = 0, next_rest = 0;  // steps
    bool probes = false;
  };
  double chance(const Draft& draft) const;
  double seconds(int64_t tokens, int64_t longest) const;
  std::vector<int64_t> all(std::span<const Draft> drafts, int64_t left) const;
  std::vector<int64_t> best(std::span<const Draft> drafts, int64_t rows, int64_t left);

  const bool measured_;
  const int64_t again_;
  PassTimes steps_;
  double drafting_ = 0;  // seconds for a token of the longest draft
  bool has_drafted_ = false;
  int64_t not_worth_ = 0;          // texts whose first draft was not worth it
  std::map<int64_t, Rate> rates_;  // by how much was matched
  std::map<const Sequence*, OfText> texts_;
};

}  // namespace transom
