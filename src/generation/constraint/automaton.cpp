// SPDX-License-Identifier: Apache-2.0
#include "generation/constraint/automaton.h"

#include <algorithm>

#include "base/error.h"

namespace transom::constraint {

uint32_t Stacks::push(uint32_t stack, uint32_t node) {
  const uint64_t key = uint64_t{stack} << 32 | node;
  const auto [found, is_new] = known_.emplace(key, static_cast<uint32_t>(entries_.size()));
  if (is_new) entries_.push_back({node, stack, entries_[stack].depth + 1});
  return found->second;
}

namespace {

// Follows calls and ends from `pending` on; what remains reads bytes.
Places closure(const Grammar& grammar, Stacks& stacks, std::vector<Place> pending) {
  Places result;
  std::vector<Place> seen = pending;
  const auto add = [&](Place place) {
    if (std::find(seen.begin(), seen.end(), place) != seen.end()) return;
    if (seen.size() >= kMostPlaces) fail("the grammar is too ambiguous: more than {} places at once", kMostPlaces);
    seen.push_back(place);
    pending.push_back(place);
  };
  while (!pending.empty()) {
    const Place place = pending.back();
    pending.pop_back();
    const Grammar::Node& node = grammar.nodes[place.node];
    if (!node.bytes.empty()) result.items.push_back(place);
    for (const Grammar::Call& call : node.calls) {
      const Grammar::Node& after = grammar.nodes[call.target];
      // Behind a call that is the last of its rule there is nothing to return to.
      const bool last = after.bytes.empty() && after.calls.empty() && after.ends;
      if (!last && stacks.depth(place.stack) >= kMostDepth) continue;
      add({grammar.rules[call.rule], last ? place.stack : stacks.push(place.stack, call.target)});
    }
    if (!node.ends) continue;
    if (place.stack == 0) result.ended = true;
    else add({stacks.top(place.stack), stacks.below(place.stack)});
  }
  std::sort(result.items.begin(), result.items.end());
  return result;
}

void follow(const Grammar& grammar, Place place, uint8_t byte, std::vector<Place>& next) {
  for (const Grammar::ByteEdge& edge : grammar.nodes[place.node].bytes)
    if (edge.low <= byte && byte <= edge.high) {
      const Place target{edge.target, place.stack};
      if (std::find(next.begin(), next.end(), target) == next.end()) next.push_back(target);
    }
}

}  // namespace

Places start_of(const Grammar& grammar, Stacks& stacks) { return closure(grammar, stacks, {{grammar.rules[0], 0}}); }

Places behind(const Grammar& grammar, Stacks& stacks, const Places& places, uint8_t byte) {
  std::vector<Place> next;
  for (const Place& place : places.items) follow(grammar, place, byte, next);
  if (next.empty()) return {};
  return closure(grammar, stacks, std::move(next));
}

Places behind(const Grammar& grammar, Stacks& stacks, Place place, uint8_t byte) {
  std::vector<Place> next;
  follow(grammar, place, byte, next);
  if (next.empty()) return {};
  return closure(grammar, stacks, std::move(next));
}

Places returned(const Grammar& grammar, Stacks& stacks, uint32_t stack) {
  return closure(grammar, stacks, {{stacks.top(stack), stacks.below(stack)}});
}

}  // namespace transom::constraint
