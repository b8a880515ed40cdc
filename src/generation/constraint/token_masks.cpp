// SPDX-License-Identifier: Apache-2.0
#include "generation/constraint/token_masks.h"

#include <algorithm>
#include <ctime>
#include <set>

#include "base/error.h"
#include "generation/constraint/place_classes.h"

namespace transom::constraint {

CompiledGrammar::CompiledGrammar(Grammar grammar, std::shared_ptr<const TokenTrie> trie, size_t most_bytes)
    : grammar_(std::move(grammar)),
      trie_(std::move(trie)),
      alike_(alike_places(grammar_, trie_->most_depth())),
      most_bytes_(most_bytes) {
  forget();
}

// Drops what is found; all of it can be found again.
void CompiledGrammar::forget() const {
  of_places_.clear();
  for (auto& known : known_sets_) known.clear();
  sets_.assign(1, {});
  known_sets_[0][{}] = 0;
  relative_stacks_ = Stacks();
  bytes_ = 0;
}

int32_t CompiledGrammar::relative(Places places) const {
  auto& known = known_sets_[places.ended ? 1 : 0];
  const auto found = known.find(places.items);
  if (found != known.end()) return found->second;
  const auto number = static_cast<int32_t>(sets_.size());
  known[places.items] = number;
  bytes_ += sizeof(RelativeSet) + 64 + 2 * places.items.size() * sizeof(Place);
  sets_.push_back({std::move(places), {}});
  return number;
}

int32_t CompiledGrammar::step(int32_t set, uint8_t byte) const {
  if (set == 0) return 0;
  const auto at = static_cast<size_t>(set);
  if (sets_[at].behind.empty()) {
    sets_[at].behind.assign(256, -1);
    bytes_ += 256 * sizeof(int32_t);
  }
  if (sets_[at].behind[byte] >= 0) return sets_[at].behind[byte];
  const int32_t next = relative(behind(grammar_, relative_stacks_, sets_[at].places, byte));
  sets_[at].behind[byte] = next;
  return next;
}

// The tokens below a node of the trie, by their bytes behind it.
void CompiledGrammar::add_rest(Rest& rest, size_t trie_node) const {
  const TokenTrie& trie = *trie_;
  std::vector<uint32_t> path{0};
  const uint16_t depth = trie[trie_node].depth;
  for (size_t i = trie_node + 1; i < trie[trie_node].next; ++i) {
    expect_time();
    const auto level = static_cast<size_t>(trie[i].depth - depth);
    path.resize(level);
    auto& below = rest.nodes[path.back()].below;
    auto found = std::find_if(below.begin(), below.end(), [&](const auto& each) { return each.first == trie[i].byte; });
    if (found == below.end()) {
      below.emplace_back(trie[i].byte, static_cast<uint32_t>(rest.nodes.size()));
      path.push_back(static_cast<uint32_t>(rest.nodes.size()));
      rest.nodes.emplace_back();
    } else {
      path.push_back(found->second);
    }
    auto& tokens = rest.nodes[path.back()].tokens;
    const auto here = trie.tokens_at(i);
    tokens.insert(tokens.end(), here.begin(), here.end());
  }
}

const CompiledGrammar::OfPlace& CompiledGrammar::of_place(uint32_t node, bool with_rest) const {
  constexpr size_t kBytesOfAStack = 64;
  node = alike_[node];
  if (const auto found = of_places_.find(node); found != of_places_.end() && (found->second->rest || !with_rest))
    return *found->second;
  if (bytes_ + kBytesOfAStack * relative_stacks_.size() > most_bytes_) forget();
  auto kept = std::make_unique<OfPlace>();
  const TokenTrie& trie = *trie_;
  kept->inside.assign((trie.vocabulary_size() + 31) / 32, 0);
  if (with_rest) kept->rest.emplace();
  std::vector<int32_t> sets(static_cast<size_t>(trie.most_depth()) + 1, 0);
  for (size_t i = 0; i < trie.size();) {
    expect_time();
    const TokenTrie::Node& each = trie[i];
    int32_t next = 0;
    if (each.depth == 1) next = relative(behind(grammar_, relative_stacks_, Place{node, 0}, each.byte));
    else next = step(sets[each.depth - 1u], each.byte);
    const bool ended = sets_[static_cast<size_t>(next)].places.ended;
    const bool alive = !sets_[static_cast<size_t>(next)].places.items.empty();
    if (ended || alive)
      for (const int32_t token : trie.tokens_at(i)) kept->inside[static_cast<size_t>(token) / 32] |= 1u << (token % 32);
    if (ended && with_rest) add_rest(*kept->rest, i);
    if (!alive) {
      i = each.next;
      continue;
    }
    sets[each.depth] = next;
    ++i;
  }
  bytes_ += kept->inside.size() * sizeof(uint32_t);
  if (with_rest) bytes_ += kept->rest->nodes.size() * 2 * sizeof(Rest::Node);
  return *(of_places_[node] = std::move(kept));
}

void CompiledGrammar::allow_rest(const Rest& rest, uint32_t at, const Places& places, Stacks& stacks,
                                 Mask& mask) const {
  for (const auto& [byte, below] : rest.nodes[at].below) {
    expect_time();
    const Places next = behind(grammar_, stacks, places, byte);
    if (next.dead()) continue;
    for (const int32_t token : rest.nodes[below].tokens) mask[static_cast<size_t>(token) / 32] |= 1u << (token % 32);
    if (!next.items.empty()) allow_rest(rest, below, next, stacks, mask);
  }
}

std::string CompiledGrammar::key_of(const Places& places, const Stacks& stacks) const {
  std::string key;
  const auto add = [&](uint32_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const Place& place : places.items) {
    add(alike_[place.node]);
    for (uint32_t stack = place.stack; stack != 0; stack = stacks.below(stack)) add(alike_[stacks.top(stack)]);
    add(UINT32_MAX);
  }
  return key;
}

double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void CompiledGrammar::expect_time() const {
  constexpr size_t kTimesBetween = 256;
  if (++checks_ % kTimesBetween == 0 && thread_seconds() > until_)
    fail("the grammar is too ambiguous: its next tokens are not found in time; make it simpler");
}

std::shared_ptr<const Mask> CompiledGrammar::allowed(const Places& places, Stacks& stacks, double seconds) const {
  constexpr size_t kMostMasks = 1024;
  // Stacks have other numbers in each row; the key has the places themselves, in an order that all rows share.
  Places sorted = places;
  const std::string key = key_of(sorted, stacks);
  const std::lock_guard lock(mutex_);
  const auto found = masks_.find(key);
  if (found != masks_.end()) return found->second;
  until_ = thread_seconds() + seconds;
  auto mask = std::make_shared<Mask>((trie_->vocabulary_size() + 31) / 32, 0);
  for (const Place& place : places.items) {
    const OfPlace& each = of_place(place.node, place.stack != 0);
    for (size_t i = 0; i < mask->size(); ++i) (*mask)[i] |= each.inside[i];
    if (place.stack == 0 || each.rest->nodes[0].below.empty()) continue;
    allow_rest(*each.rest, 0, returned(grammar_, stacks, place.stack), stacks, *mask);
  }
  if (masks_.size() >= kMostMasks) masks_.clear();
  masks_[key] = mask;
  return mask;
}

void CompiledGrammar::prepare(double seconds) const {
  Stacks stacks;
  allowed(start_of(grammar_, stacks), stacks, seconds);
  const double until = thread_seconds() + seconds;
  // Of the whole text's own rule no rest is asked for: nothing comes behind it.
  std::vector<std::pair<uint32_t, bool>> pending{{grammar_.rules[0], false}};
  std::set<uint32_t> seen{grammar_.rules[0]};
  const auto add = [&](uint32_t node, bool is_called) {
    if (seen.insert(node).second) pending.emplace_back(node, is_called);
  };
  for (size_t i = 0; i < pending.size(); ++i) {
    const auto [place, is_called] = pending[i];
    const Grammar::Node& node = grammar_.nodes[place];
    if (!node.bytes.empty()) {
      const std::lock_guard lock(mutex_);
      if (thread_seconds() >= until) return;
      until_ = until;
      try {
        of_place(place, is_called);
      } catch (const Error&) {  // the others may never be asked for
        return;
      }
    }
    for (const Grammar::Call& call : node.calls) add(grammar_.rules[call.rule], true), add(call.target, is_called);
    for (const Grammar::ByteEdge& edge : node.bytes) add(edge.target, is_called);
  }
}

}  // namespace transom::constraint
