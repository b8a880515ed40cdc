// SPDX-License-Identifier: Apache-2.0
// Sets of texts that a finite automaton tells, so that parts of grammars can be intersected and taken from each other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "work/generation/constraint/grammar/grammar.h"

namespace transom::constraint {

class TextSet {
 public:
  static constexpr size_t kMostStates = 30'000;

  // Of a part that calls no rules, in a grammar of its own. All of these throw Error where more than kMostStates states
  // are needed.
  static TextSet of(const std::function<GrammarBuilder::Part(GrammarBuilder&)>& make);
  // Multiples of divisor / 10^decimals, as decimal digits behind a sign that may be there, with at most so many
  // decimals behind a point. `divisor` is from 1 to 1000.
  static TextSet multiples_of(int64_t divisor, int decimals = 0);
  TextSet both(const TextSet& other) const;
  TextSet without(const TextSet& other) const;
  bool empty() const;
  GrammarBuilder::Part part(GrammarBuilder& builder) const { return builder.automaton(states_); }
  // Of texts as they stand in a JSON string: with the quote that ends it.
  TextSet closed() const;
  // Of such texts, closed or not: those of so many characters (`most` below 0: no limit). None where there
  // are no such texts.
  std::optional<GrammarBuilder::Part> part_of_length(GrammarBuilder& builder, int64_t least, int64_t most) const;

 private:
  TextSet product(const TextSet& other, bool other_ends) const;
  // Deterministic: the edges of a state do not overlap, and are sorted.
  std::vector<GrammarBuilder::State> states_;
};

}  // namespace transom::constraint
