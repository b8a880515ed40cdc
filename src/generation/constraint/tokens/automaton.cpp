// SPDX-License-Identifier: Apache-2.0
#include "generation/constraint/tokens/automaton.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"

namespace transom::constraint {

uint32_t Stacks::push(uint32_t stack, uint32_t node) {
  const uint64_t key = uint64_t{stack} << 32 | node;
  const auto [found, is_new] = known_.emplace(key, static_cast<uint32_t>(entries_.size()));
  if (is_new) entries_.push_back({node, stack, entries_[stack].depth + 1});
  return found->second;
}

namespace {

// A list at first: most sets are small.
class SeenPlaces {
 public:
  bool insert(Place place) {
    constexpr size_t kMostListed = 32;
    if (list_.size() <= kMostListed) {
      if (std::find(list_.begin(), list_.end(), place) != list_.end()) return false;
      list_.push_back(place);
      if (list_.size() > kMostListed)
        for (const Place& each : list_) keys_.insert(key_of(each));
      return true;
    }
    return keys_.insert(key_of(place)).second;
  }
  size_t size() const { return std::max(list_.size(), keys_.size()); }

 private:
  static uint64_t key_of(Place place) { return uint64_t{place.node} << 32 | place.stack; }
  std::vector<Place> list_;
  std::unordered_set<uint64_t> keys_;
};

// Follows calls and ends from `pending` on; what remains reads bytes.
Places closure(const Grammar& grammar, Stacks& stacks, std::vector<Place> pending) {
  Places result;
  SeenPlaces seen;
  for (const Place& place : pending) seen.insert(place);
  const auto add = [&](Place place) {
    if (!seen.insert(place)) return;
    if (seen.size() > kMostPlaces) fail("the grammar is too ambiguous: more than {} places at once", kMostPlaces);
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
    if (edge.low <= byte && byte <= edge.high) next.push_back({edge.target, place.stack});
}

// Of the places that follow each once.
Places closure_of(const Grammar& grammar, Stacks& stacks, std::vector<Place> next) {
  std::sort(next.begin(), next.end());
  next.erase(std::unique(next.begin(), next.end()), next.end());
  return next.empty() ? Places() : closure(grammar, stacks, std::move(next));
}

}  // namespace

Places start_of(const Grammar& grammar, Stacks& stacks) { return closure(grammar, stacks, {{grammar.rules[0], 0}}); }

Places behind(const Grammar& grammar, Stacks& stacks, const Places& places, uint8_t byte) {
  std::vector<Place> next;
  for (const Place& place : places.items) follow(grammar, place, byte, next);
  return closure_of(grammar, stacks, std::move(next));
}

Places behind(const Grammar& grammar, Stacks& stacks, Place place, uint8_t byte) {
  std::vector<Place> next;
  follow(grammar, place, byte, next);
  return closure_of(grammar, stacks, std::move(next));
}

Places returned(const Grammar& grammar, Stacks& stacks, uint32_t stack) {
  return closure(grammar, stacks, {{stacks.top(stack), stacks.below(stack)}});
}

}  // namespace transom::constraint
