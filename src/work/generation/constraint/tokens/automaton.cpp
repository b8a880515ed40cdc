// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/tokens/automaton.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "base/error.h"

namespace transom::constraint {

uint32_t Stacks::push(uint32_t stack, uint32_t node, uint32_t count) {
  const auto [found, is_new] = known_.emplace(Key{node, stack, count}, static_cast<uint32_t>(entries_.size()));
  if (is_new) entries_.push_back({node, stack, entries_[stack].depth + 1, count});
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
        for (const Place& each : list_) places_.insert(each);
      return true;
    }
    return places_.insert(place).second;
  }
  size_t size() const { return std::max(list_.size(), places_.size()); }

 private:
  struct Hash {
    size_t operator()(const Place& place) const {
      constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
      return ((uint64_t{place.node} << 32 | place.stack) * kOdd) ^ (place.count * (kOdd >> 7));
    }
  };
  std::vector<Place> list_;
  std::unordered_set<Place, Hash> places_;
};

// The count at the target of an edge; none where the rule cannot end from there any more.
std::optional<uint32_t> count_behind(const Grammar& grammar, const Stacks& stacks, const Place& place, uint32_t target,
                                     bool counts) {
  const Counter* counter = grammar.counter_of(place.node);
  if (!counter) return 0;
  const uint32_t count = counts ? counter->next(place.count) : place.count;
  if (!counter->allows(grammar.nodes[target].place_in_rule, count)) return std::nullopt;
  return stacks.folds() > 0 ? counter->folded(count, stacks.folds()) : count;
}

// The same at the begin of a rule.
std::optional<uint32_t> count_of_begin(const Grammar& grammar, const Stacks& stacks, uint32_t node) {
  const Counter* counter = grammar.counter_of(node);
  if (!counter) return 0;
  if (!counter->allows(grammar.nodes[node].place_in_rule, 0)) return std::nullopt;
  return stacks.folds() > 0 ? counter->folded(0, stacks.folds()) : 0;
}

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
      const auto count = count_behind(grammar, stacks, place, call.target, call.counts);
      const uint32_t begin = grammar.rules[call.rule];
      const auto count_inside = count_of_begin(grammar, stacks, begin);
      if (!count || !count_inside) continue;
      // Behind a call that is the last of its rule there is nothing to return to.
      const bool last = grammar.nodes[call.target].is_last();
      if (!last && stacks.depth(place.stack) >= kMostDepth) continue;
      add({begin, last ? place.stack : stacks.push(place.stack, call.target, *count), *count_inside});
    }
    const Counter* counter = grammar.counter_of(place.node);
    if (!node.ends || (counter && !counter->may_end(place.count))) continue;
    if (place.stack == 0) result.ended = true;
    else add({stacks.top(place.stack), stacks.below(place.stack), stacks.count(place.stack)});
  }
  std::sort(result.items.begin(), result.items.end());
  return result;
}

void follow(const Grammar& grammar, const Stacks& stacks, Place place, uint8_t byte, std::vector<Place>& next) {
  for (const Grammar::ByteEdge& edge : grammar.nodes[place.node].bytes)
    if (edge.low <= byte && byte <= edge.high)
      if (const auto count = count_behind(grammar, stacks, place, edge.target, edge.counts))
        next.push_back({edge.target, place.stack, *count});
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
  for (const Place& place : places.items) follow(grammar, stacks, place, byte, next);
  return closure_of(grammar, stacks, std::move(next));
}

Places behind(const Grammar& grammar, Stacks& stacks, Place place, uint8_t byte) {
  std::vector<Place> next;
  follow(grammar, stacks, place, byte, next);
  return closure_of(grammar, stacks, std::move(next));
}

Places returned(const Grammar& grammar, Stacks& stacks, uint32_t stack) {
  return closure(grammar, stacks, {{stacks.top(stack), stacks.below(stack), stacks.count(stack)}});
}

}  // namespace transom::constraint
