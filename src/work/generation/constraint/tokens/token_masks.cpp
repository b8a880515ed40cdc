// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/tokens/token_masks.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "work/generation/constraint/tokens/place_classes.h"

namespace transom::constraint {
namespace {

void allow(Mask& mask, std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) mask[static_cast<size_t>(token) / 32] |= 1u << (token % 32);
}

size_t words_of(const TokenTrie& trie) { return (trie.vocabulary_size() + 31) / 32; }

}  // namespace

void fail_as_ambiguous() {
  fail("the grammar is too ambiguous: its next tokens are not found in time; make it simpler");
}

CompiledGrammar::CompiledGrammar(Grammar grammar, std::shared_ptr<const TokenTrie> trie, size_t most_bytes)
    : grammar_(std::move(grammar)),
      trie_(std::move(trie)),
      alike_(equivalent_places(grammar_, trie_->most_depth())),
      behind_(grammar_, alike_),
      most_bytes_(most_bytes) {
  forget();
}

// Drops what is found of places; all of it can be found again.
void CompiledGrammar::forget() const {
  of_places_.clear();
  searches_.clear();
  relative_ = std::make_shared<RelativeSets>(grammar_, longest_token());
  place_bytes_ = 0;
}

// The tokens below a node of the trie, by their bytes behind it.
bool CompiledGrammar::add_rests(PlaceSearch& search, WorkTime& time) const {
  const TokenTrie& trie = *trie_;
  auto& [nodes, tokens] = *search.found->rests;
  while (search.rest_next < search.rest_end) {
    const size_t i = search.rest_next++;
    if (trie[i].depth == search.rest_depth + 1 && !behind_.of(search.place).test(trie[i].byte)) {
      search.rest_next = trie[i].next;
      continue;
    }
    search.rest_path.resize(trie[i].depth - search.rest_depth);
    const uint32_t parent = search.rest_path.back();
    uint32_t node = nodes[parent].child;
    while (node != 0 && nodes[node].byte != trie[i].byte) node = nodes[node].sibling;
    if (node == 0) {
      node = static_cast<uint32_t>(nodes.size());
      nodes.push_back({.sibling = std::exchange(nodes[parent].child, node), .byte = trie[i].byte});
    }
    search.rest_path.push_back(node);
    for (const int32_t token : trie.tokens_at(i)) {
      tokens.push_back({token, nodes[node].token});
      nodes[node].token = static_cast<uint32_t>(tokens.size() - 1);
    }
    if (time.is_over(4)) return false;
  }
  return true;
}

bool CompiledGrammar::go_on(PlaceSearch& search, WorkTime& time) const {
  constexpr size_t kMostBytes = size_t{512} << 20;
  const TokenTrie& trie = *trie_;
  RelativeSets& relative = *search.relative;
  const bool with_rests = search.found->rests.has_value();
  while (add_rests(search, time)) {
    if (search.next == trie.size()) return true;
    const size_t i = search.next;
    const TokenTrie::Node& each = trie[i];
    const size_t known = relative.size();
    const int32_t set = each.depth == 1 ? relative.behind_node(search.place, search.count, each.byte)
                                        : relative.behind_set(search.sets[each.depth - 1u], each.byte);
    const Places& places = relative[set];
    if (!places.dead()) allow(search.found->inside, trie.tokens_at(i));
    if (places.ended && with_rests) {
      search.rest_next = i + 1, search.rest_end = each.next, search.rest_depth = each.depth;
      search.rest_path.assign(1, 0);
    }
    search.sets[each.depth] = set;
    search.next = places.items.empty() ? each.next : i + 1;
    if (relative.bytes() > kMostBytes) fail_as_ambiguous();
    if (time.is_over(relative.size() > known ? WorkTime::cost_of_set(places.items.size()) : 1)) return false;
  }
  return false;
}

uint32_t CompiledGrammar::folded(uint32_t node, uint32_t count) const {
  const Counter* counter = grammar_.counter_of(node);
  return counter ? counter->folded(count, longest_token()) : 0;
}

// Null: the search is to go on.
CompiledGrammar::FoundPlace CompiledGrammar::of_place(uint32_t node, uint32_t count, bool with_rests,
                                                      std::shared_ptr<PlaceSearch>& search, WorkTime& time) const {
  count = folded(node, count);
  node = alike_[node];
  const NodeAndCount key = uint64_t{node} << 32 | count;
  if (const auto found = of_places_.find(key); found != of_places_.end() && (found->second->rests || !with_rests)) {
    search.reset();
    return found->second;
  }
  if (!search) search = searches_[{key, with_rests}].lock();
  if (!search) {
    if (place_bytes_ + relative_->bytes() > most_bytes_) forget();
    std::erase_if(searches_, [](const auto& each) { return each.second.expired(); });
    search = std::make_shared<PlaceSearch>();
    search->relative = relative_;
    search->place = node, search->count = count;
    search->found = std::make_shared<TokensOfPlace>();
    search->found->inside.assign(words_of(*trie_), 0);
    if (with_rests) search->found->rests.emplace();
    search->sets.assign(static_cast<size_t>(trie_->most_depth()) + 1, 0);
    searches_[{key, with_rests}] = search;
  }
  if (!go_on(*search, time)) return nullptr;
  const FoundPlace found = std::exchange(search, nullptr)->found;
  place_bytes_ += found->inside.size() * sizeof(uint32_t);
  if (with_rests) place_bytes_ += found->rests->bytes();
  FoundPlace& kept = of_places_[key];
  if (!kept || with_rests) kept = found;
  return found;
}

bool CompiledGrammar::read_rests(MaskSearch& search, Stacks& stacks, WorkTime& time) const {
  while (!search.levels.empty()) {
    const TokenRests& rests = *search.found->rests;
    MaskSearch::Level& level = search.levels.back();
    if (level.node == 0) {
      search.levels.pop_back();
      continue;
    }
    const TokenRests::Node& node = rests.nodes[std::exchange(level.node, rests.nodes[level.node].sibling)];
    Places next = behind(grammar_, stacks, level.places, node.byte);
    const size_t cost = WorkTime::cost_of_set(level.places.items.size() + next.items.size());
    if (!next.dead())
      for (uint32_t at = node.token; at != 0; at = rests.tokens[at].next) allow(search.mask, {&rests.tokens[at].id, 1});
    if (!next.items.empty()) search.levels.push_back({node.child, std::move(next)});
    if (time.is_over(cost)) return false;
  }
  return true;
}

// Stacks have other numbers in each row; the key has the places themselves, in an order that all rows share.
std::string CompiledGrammar::key_of(const Places& places, const Stacks& stacks) const {
  std::string key;
  const auto add = [&](uint32_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const Place& place : places.items) {
    add(alike_[place.node]), add(folded(place.node, place.count));
    for (uint32_t stack = place.stack; stack != 0; stack = stacks.below(stack))
      add(alike_[stacks.top(stack)]), add(folded(stacks.top(stack), stacks.count(stack)));
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
      for (size_t i = 0; i < search.mask.size(); ++i) search.mask[i] |= search.found->inside[i];
      const uint32_t first = place.stack != 0 ? search.found->rests->nodes[0].child : 0;
      if (first != 0) search.levels.push_back({first, returned(grammar_, stacks, place.stack)});
      if (time.is_over(search.mask.size() / 16)) return nullptr;
    }
    if (!read_rests(search, stacks, time)) return nullptr;
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
