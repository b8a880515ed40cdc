// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/tokens/token_masks.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"

namespace transom::constraint {
namespace {

size_t words_of(const TokenTrie& trie) { return (trie.vocabulary_size() + 31) / 32; }

void allow(Mask& mask, int32_t token) { mask[static_cast<size_t>(token) / 32] |= 1u << (token % 32); }

}  // namespace

void fail_as_ambiguous() {
  fail("the grammar is too ambiguous: its next tokens are not found in time; make it simpler");
}

CompiledGrammar::CompiledGrammar(Grammar grammar, std::shared_ptr<const TokenTrie> trie, size_t most_bytes)
    : grammar_(std::move(grammar)),
      trie_(std::move(trie)),
      classes_(grammar_, std::max<uint32_t>(trie_->most_depth(), 1)),
      behind_(grammar_, classes_.of_tokens()),
      most_bytes_(most_bytes) {
  forget();
}

// Drops what is found of places; all of it can be found again.
void CompiledGrammar::forget() const {
  of_places_.clear();
  bases_.clear();
  searches_.clear();
  relative_ = std::make_shared<RelativeSets>(grammar_, classes_);
  place_bytes_ = 0;
}

uint32_t CompiledGrammar::folded(uint32_t node, uint32_t count) const {
  const Counter* counter = grammar_.counter_of(node);
  return counter ? counter->folded(count, classes_.bytes_of(classes_.last())) : 0;
}

// Null: the search is to go on.
CompiledGrammar::FoundPlace CompiledGrammar::of_place(uint32_t node, uint32_t count, bool with_rests,
                                                      std::shared_ptr<PlaceSearch>& search, WorkTime& time) const {
  count = folded(node, count);
  node = alike(node);
  const NodeAndCount key = uint64_t{node} << 32 | count;
  if (const auto found = of_places_.find(key); found != of_places_.end() && (found->second->rests || !with_rests)) {
    search.reset();
    return found->second;
  }
  if (!search) search = searches_[{key, with_rests}].lock();
  if (!search) {
    if (place_bytes_ + relative_->bytes() > most_bytes_) forget();
    std::erase_if(searches_, [](const auto& each) { return each.second.expired(); });
    search =
        std::make_shared<PlaceSearch>(*trie_, relative_, Place{node, 0, count}, behind_.of(node), with_rests, bases_);
    searches_[{key, with_rests}] = search;
  }
  if (!search->go_on(time)) return nullptr;
  return keep(key, *std::exchange(search, nullptr));
}

CompiledGrammar::FoundPlace CompiledGrammar::keep(NodeAndCount key, const PlaceSearch& search) const {
  constexpr size_t kMostBases = 16;
  const FoundPlace found = search.found();
  if (search.is_large() && search.relative() == relative_ &&
      std::find(bases_.begin(), bases_.end(), found) == bases_.end()) {
    bases_.insert(bases_.begin(), found);
    if (bases_.size() > kMostBases) bases_.pop_back();
  }
  place_bytes_ += found->bytes();
  FoundPlace& kept = of_places_[key];
  if (!kept || found->rests) kept = found;
  return found;
}

// What the tokens of a place hold behind its rule, and those of the place that it was found beside.
void CompiledGrammar::begin_rests(MaskSearch& search, Stacks& stacks) const {
  const Place& place = search.places.items[search.next];
  if (place.stack == 0) return;
  const auto base = search.found->base;
  for (const TokenRests* rests : {&*search.found->rests, base ? &*base->rests : nullptr}) {
    if (!rests || rests->nodes[0].child == 0) continue;
    if (search.levels.empty()) {
      std::string key = key_of({{place}}, stacks);
      if (const auto known = rests_.find(key); known != rests_.end()) {
        for (const int32_t token : known->second) allow(search.mask, token);
        return;
      }
      search.rests.clear();
      search.rests_key = std::move(key);
    }
    search.levels.push_back(
        {rests, rests->nodes[0].child,
         search.levels.empty() ? returned(grammar_, stacks, place.stack) : search.levels[0].places});
  }
}

void CompiledGrammar::keep_rests(MaskSearch& search) const {
  if (search.rests_key.empty()) return;
  constexpr size_t kOfMap = 128;
  const size_t bytes = kOfMap + search.rests_key.size() + search.rests.size() * sizeof(int32_t);
  if (rests_bytes_ + bytes > most_bytes_ / 4) rests_.clear(), rests_bytes_ = 0;
  rests_bytes_ += bytes;
  rests_[std::exchange(search.rests_key, {})] = std::vector<int32_t>(search.rests.begin(), search.rests.end());
}

bool CompiledGrammar::read_rests(MaskSearch& search, Stacks& stacks, WorkTime& time) const {
  while (!search.levels.empty()) {
    MaskSearch::Level& level = search.levels.back();
    const TokenRests& rests = *level.rests;
    if (level.node == 0) {
      search.levels.pop_back();
      continue;
    }
    const bool is_base = &rests != &*search.found->rests;
    const TokenRests::Node& node = rests.nodes[std::exchange(level.node, rests.nodes[level.node].sibling)];
    Places next = behind(grammar_, stacks, level.places, node.byte);
    const size_t cost = WorkTime::cost_of_set(level.places.items.size() + next.items.size());
    if (!next.dead())
      for (uint32_t at = node.token; at != 0; at = rests.tokens[at].next) {
        const TokenRests::Token& token = rests.tokens[at];
        if (is_base && search.found->is_apart(token.node)) continue;
        allow(search.mask, token.id);
        search.rests.push_back(token.id);
      }
    if (!next.items.empty()) search.levels.push_back({&rests, node.child, std::move(next)});
    if (time.is_over(cost)) return false;
  }
  return true;
}

// Stacks have other numbers in each row; the key has the places themselves, in an order that all rows share.
std::string CompiledGrammar::key_of(const Places& places, const Stacks& stacks) const {
  std::string key;
  const auto add = [&](uint32_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const Place& place : places.items) {
    add(alike(place.node)), add(folded(place.node, place.count));
    for (uint32_t stack = place.stack; stack != 0; stack = stacks.below(stack))
      add(alike(stacks.top(stack))), add(folded(stacks.top(stack), stacks.count(stack)));
    add(UINT32_MAX);
  }
  return key;
}

std::shared_ptr<const Mask> CompiledGrammar::go_on(MaskSearch& search, Stacks& stacks, WorkTime& time) const {
  constexpr size_t kMostMasks = 1024;
  const bool begins = search.mask.empty();
  if (begins) search.key = key_of(search.places, stacks);
  const std::lock_guard lock(mutex_);
  if (begins) {
    if (const auto found = masks_.find(search.key); found != masks_.end()) return found->second;
    search.mask.assign(words_of(*trie_), 0);
  }
  for (; search.next < search.places.items.size(); ++search.next) {
    const Place& place = search.places.items[search.next];
    if (!search.found) {
      search.found = of_place(place.node, place.count, place.stack != 0, search.place_search, time);
      if (!search.found) return nullptr;
      search.found->add_to(search.mask);
      begin_rests(search, stacks);
      if (time.is_over(search.found->inside.size() / 16 + search.found->few.size())) return nullptr;
    }
    if (!read_rests(search, stacks, time)) return nullptr;
    keep_rests(search);
    search.found.reset();
  }
  const size_t bytes = search.key.size() + search.mask.size() * sizeof(uint32_t);
  if (masks_.size() >= kMostMasks || mask_bytes_ + bytes > most_bytes_) masks_.clear(), mask_bytes_ = 0;
  mask_bytes_ += bytes;
  return masks_[search.key] = std::make_shared<const Mask>(std::move(search.mask));
}

std::shared_ptr<const Mask> CompiledGrammar::allowed(const Places& places, Stacks& stacks, double seconds) const {
  MaskSearch search(places);
  WorkTime time(seconds);
  std::shared_ptr<const Mask> mask = go_on(search, stacks, time);
  if (!mask) fail_as_ambiguous();
  return mask;
}

void CompiledGrammar::prepare(double seconds) const {
  Stacks stacks;
  allowed(start_of(grammar_, stacks), stacks, seconds);
  WorkTime time(seconds);
  // Of the whole text's own rule no rest is asked for: nothing comes behind it. Of a rule that counts one count is
  // looked at.
  struct Next {
    uint32_t node, count;
    bool is_called;
  };
  std::vector<Next> pending{{grammar_.rules[0], 0, false}};
  std::set<uint32_t> seen{grammar_.rules[0]};
  const auto add = [&](uint32_t node, uint32_t count, bool is_called) {
    if (seen.insert(node).second) pending.push_back({node, count, is_called});
  };
  for (size_t i = 0; i < pending.size(); ++i) {
    const auto [place, count, is_called] = pending[i];
    const Grammar::Node& node = grammar_.nodes[place];
    if (!node.bytes.empty()) {
      const std::lock_guard lock(mutex_);
      std::shared_ptr<PlaceSearch> search;
      try {
        if (!of_place(place, count, is_called, search, time)) return;
      } catch (const Error&) {  // the others may never be asked for
        return;
      }
    }
    const Counter* counter = grammar_.counter_of(place);
    const auto behind_edge = [&, &count = count, &is_called = is_called](const auto& edge) {
      const uint32_t next = counter && edge.counts ? counter->next(count) : count;
      if (!counter || counter->allows(grammar_.nodes[edge.target].place_in_rule, next))
        add(edge.target, next, is_called);
    };
    for (const Grammar::Call& call : node.calls) add(grammar_.rules[call.rule], 0, true), behind_edge(call);
    for (const Grammar::ByteEdge& edge : node.bytes) behind_edge(edge);
  }
}

}  // namespace transom::constraint
