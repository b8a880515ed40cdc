// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/grammar/patterns.h"

#include <algorithm>
#include <unordered_set>

#include "work/generation/constraint/grammar/regex.h"
#include "work/generation/constraint/tokens/automaton.h"

namespace transom::constraint {
namespace {

constexpr size_t kMostPairs = 200'000;

Grammar automaton_of(std::string_view pattern) {
  GrammarBuilder builder(false);
  const uint32_t root = builder.add_rule();
  builder.define(root, regex_part(builder, pattern, {.anchored = false}));
  return builder.finish("pattern");
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view text) {
  const Grammar grammar = automaton_of(pattern);
  Stacks stacks;
  Places places = start_of(grammar, stacks);
  for (const char byte : text) places = behind(grammar, stacks, places, static_cast<uint8_t>(byte));
  return places.ended;
}

// Expressions call no rules, so that pairs of their states are all there is to look at.
bool share_a_text(std::string_view first, std::string_view second) {
  const Grammar a = automaton_of(first), b = automaton_of(second);
  std::vector<std::pair<uint32_t, uint32_t>> open;
  std::unordered_set<uint64_t> seen;
  const auto reach = [&](uint32_t x, uint32_t y) {
    if (seen.insert(uint64_t{x} << 32 | y).second) open.emplace_back(x, y);
  };
  reach(a.rules[0], b.rules[0]);
  while (!open.empty()) {
    const auto [x, y] = open.back();
    open.pop_back();
    if (seen.size() > kMostPairs || (a.nodes[x].ends && b.nodes[y].ends)) return true;
    for (const Grammar::ByteEdge& left : a.nodes[x].bytes)
      for (const Grammar::ByteEdge& right : b.nodes[y].bytes)
        if (std::max(left.low, right.low) <= std::min(left.high, right.high)) reach(left.target, right.target);
  }
  return false;
}

}  // namespace transom::constraint
