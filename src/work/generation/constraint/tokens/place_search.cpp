// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/tokens/place_search.h"

#include <algorithm>
#include <bit>

#include "work/generation/constraint/tokens/token_masks.h"

namespace transom::constraint {

bool TokensOfPlace::is_apart(uint32_t node) const {
  const auto behind = std::upper_bound(apart.begin(), apart.end(), node,
                                       [](uint32_t value, const auto& range) { return value < range.first; });
  return behind != apart.begin() && node < std::prev(behind)->second;
}

void TokensOfPlace::add_to(Mask& mask) const {
  for (size_t i = 0; i < inside.size(); ++i) mask[i] |= inside[i];
  for (const int32_t token : few) mask[static_cast<size_t>(token) / 32] |= 1u << (token % 32);
}

void TokensOfPlace::list_few() {
  const size_t most = inside.size() / 16;
  std::vector<int32_t> found;
  for (size_t i = 0; i < inside.size(); ++i)
    for (uint32_t word = inside[i]; word != 0; word &= word - 1) {
      if (found.size() == most) return;
      found.push_back(static_cast<int32_t>(32 * i) + std::countr_zero(word));
    }
  few = std::move(found);
  inside = Mask();
}

PlaceSearch::PlaceSearch(const TokenTrie& trie, std::shared_ptr<RelativeSets> relative, Place place,
                         const ByteSet& behind, bool with_rests,
                         std::span<const std::shared_ptr<const TokensOfPlace>> known)
    : trie_(trie), relative_(std::move(relative)), found_(std::make_shared<TokensOfPlace>()) {
  found_->first = relative_->behind_node(place.node, place.count);
  found_->behind = behind;
  if (with_rests) found_->rests.emplace();
  std::vector<size_t> apart(known.size(), 0);
  size_t nodes = 0;  // that may have to be read
  for (size_t i = 0; i < trie_.size(); i = trie_[i].next) {
    const size_t below = trie_[i].next - i;
    const int32_t set = found_->first[trie_[i].byte];
    nodes += (*relative_)[set].items.empty() ? 1 : below;
    for (size_t k = 0; k < known.size(); ++k)
      apart[k] += relative_->are_alike(known[k]->first[trie_[i].byte], set, trie_[i].longest) ? 1 : below;
  }
  if (nodes > kSmall)
    for (size_t k = 0, least = nodes + nodes / 4; k < known.size(); ++k)
      if (apart[k] < least && (!with_rests || (known[k]->rests && (behind & ~known[k]->behind).none())))
        found_->base = known[k], least = apart[k];
  begin();
}

void PlaceSearch::begin() {
  if (found_->base) found_->inside = found_->base->inside;
  else found_->inside.assign((trie_.vocabulary_size() + 31) / 32, 0);
  sets_.assign(static_cast<size_t>(trie_.most_depth()) + 1, 0);
  sets_of_base_ = sets_;
  next_ = read_ = apart_until_ = 0;
}

// The base has turned out to be another one: without it the place may become one for others.
void PlaceSearch::begin_alone() {
  found_->base.reset();
  found_->apart.clear();
  if (found_->rests) found_->rests.emplace();
  begin();
}

bool PlaceSearch::go_on(WorkTime& time) {
  while (add_rests(time)) {
    if (next_ == trie_.size()) {
      if (!is_large()) found_->list_few();
      return true;
    }
    if (!step(time)) return false;
  }
  return false;
}

// All of this node and below is found anew.
void PlaceSearch::read_apart(size_t i) {
  for (const int32_t token : trie_.tokens_from(i))
    found_->inside[static_cast<size_t>(token) / 32] &= ~(1u << (token % 32));
  found_->apart.emplace_back(i, trie_[i].next);
  apart_until_ = trie_[i].next;
}

bool PlaceSearch::step(WorkTime& time) {
  constexpr size_t kMostBytes = size_t{512} << 20;
  if (++read_ > trie_.size() / 4 && found_->base) {
    begin_alone();
    return true;
  }
  const size_t i = next_;
  const TokenTrie::Node& each = trie_[i];
  RelativeSets& relative = *relative_;
  const size_t known = relative.size();
  const auto set_behind = [&](const TokensOfPlace& place, std::vector<int32_t>& sets) {
    return sets[each.depth] =
               each.depth == 1 ? place.first[each.byte] : relative.behind_set(sets[each.depth - 1u], each.byte);
  };
  const int32_t set = set_behind(*found_, sets_);
  if (found_->base && i >= apart_until_) {
    const int32_t other = set_behind(*found_->base, sets_of_base_);
    if (relative.are_alike(set, other, each.longest)) {
      next_ = each.next;
      return !time.is_over(1);
    }
    const Places &here = relative[set], &there = relative[other];
    if (here.ended || there.ended || here.items.empty() || there.items.empty()) read_apart(i);
  }
  const Places& places = relative[set];
  if (!places.dead())
    for (const int32_t token : trie_.tokens_at(i))
      found_->inside[static_cast<size_t>(token) / 32] |= 1u << (token % 32);
  if (places.ended && found_->rests) {
    rest_next_ = i + 1, rest_end_ = each.next, rest_depth_ = each.depth;
    rest_path_.assign(1, 0);
  }
  next_ = places.items.empty() ? each.next : i + 1;
  if (relative.bytes() > kMostBytes) fail_as_ambiguous();
  return !time.is_over(relative.size() > known ? WorkTime::cost_of_set(places.items.size()) : 1);
}

// The tokens below a node of the trie, by their bytes behind it.
bool PlaceSearch::add_rests(WorkTime& time) {
  if (rest_next_ == rest_end_) return true;
  auto& [nodes, tokens] = *found_->rests;
  while (rest_next_ < rest_end_) {
    const size_t i = rest_next_++;
    if (trie_[i].depth == rest_depth_ + 1 && !found_->behind.test(trie_[i].byte)) {
      rest_next_ = trie_[i].next;
      continue;
    }
    rest_path_.resize(trie_[i].depth - rest_depth_);
    const uint32_t parent = rest_path_.back();
    uint32_t node = nodes[parent].child;
    while (node != 0 && nodes[node].byte != trie_[i].byte) node = nodes[node].sibling;
    if (node == 0) {
      node = static_cast<uint32_t>(nodes.size());
      nodes.push_back({.sibling = std::exchange(nodes[parent].child, node), .byte = trie_[i].byte});
    }
    rest_path_.push_back(node);
    for (const int32_t token : trie_.tokens_at(i)) {
      tokens.push_back({token, nodes[node].token, static_cast<uint32_t>(i)});
      nodes[node].token = static_cast<uint32_t>(tokens.size() - 1);
    }
    if (time.is_over(4)) return false;
  }
  return true;
}

}  // namespace transom::constraint
