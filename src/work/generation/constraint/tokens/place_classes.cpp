// SPDX-License-Identifier: Apache-2.0
// Refinement of a partition (Moore, 1956), as many rounds as a token has bytes; after the first one only nodes whose
// targets have changed are looked at.
#include "work/generation/constraint/tokens/place_classes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace transom::constraint {
namespace {

using Signature = std::vector<uint32_t>;

// Rules whose text may be empty.
std::vector<bool> empty_rules(const Grammar& grammar) {
  std::vector<bool> empty(grammar.rules.size(), false);
  const auto may_end = [&](uint32_t node) {
    // A node has followed all edges that read nothing, but no calls.
    std::vector<uint32_t> open{node}, seen{node};
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      if (grammar.nodes[at].ends) return true;
      for (const Grammar::Call& call : grammar.nodes[at].calls)
        if (empty[call.rule] && std::find(seen.begin(), seen.end(), call.target) == seen.end())
          seen.push_back(call.target), open.push_back(call.target);
    }
    return false;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t rule = 0; rule < empty.size(); ++rule)
      if (!empty[rule] && may_end(grammar.rules[rule])) empty[rule] = changed = true;
  }
  return empty;
}

class Partition {
 public:
  Partition(const Grammar& grammar, bool with_counters)
      : grammar_(grammar),
        with_counters_(with_counters),
        empty_(empty_rules(grammar)),
        classes_(grammar.nodes.size(), 0),
        into_(classes_.size()) {
    for (uint32_t node = 0; node < classes_.size(); ++node) {
      for (const Grammar::ByteEdge& edge : grammar.nodes[node].bytes) into_[edge.target].push_back(node);
      for (const Grammar::Call& call : grammar.nodes[node].calls) into_[call.target].push_back(node);
    }
    members_ = {static_cast<uint32_t>(classes_.size())};
    open_.resize(classes_.size());
    std::iota(open_.begin(), open_.end(), 0);
  }

  // So many rounds more, or until nothing changes.
  void refine(size_t rounds) {
    for (; rounds > 0 && !open_.empty(); --rounds) open_ = split(open_);
  }

  // The first node of each class stands for it.
  std::vector<uint32_t> nodes_that_stand() const {
    std::vector<uint32_t> first(members_.size(), UINT32_MAX), result;
    for (uint32_t node = 0; node < classes_.size(); ++node) {
      uint32_t& stands = first[classes_[node]];
      if (stands == UINT32_MAX) stands = node;
      result.push_back(stands);
    }
    return result;
  }

 private:
  Signature signature_of(uint32_t node) const {
    const Grammar::Node& each = grammar_.nodes[node];
    std::vector<std::pair<uint32_t, uint32_t>> edges, calls;
    for (const Grammar::ByteEdge& edge : each.bytes)
      edges.emplace_back(edge.low << 8 | edge.high, classes_[edge.target]);
    // Behind a call that may read nothing no byte is certain to be gone: only the same target is like it.
    constexpr uint32_t kItself = uint32_t{1} << 31;
    for (const Grammar::Call& call : each.calls)
      calls.emplace_back(call.rule, empty_[call.rule] ? kItself | call.target : classes_[call.target]);
    // What a rule that counts reads depends on the count too.
    Signature signature{classes_[node], each.ends, static_cast<uint32_t>(edges.size()),
                        each.counter == 0 || !with_counters_ ? UINT32_MAX : node};
    for (auto* list : {&edges, &calls}) {
      std::sort(list->begin(), list->end());
      for (const auto& [what, target] : *list) signature.push_back(what), signature.push_back(target);
    }
    return signature;
  }

  // One byte further: gives back those that this may tell apart from others next. The largest part of a class keeps its
  // number (Hopcroft, 1971), so that a node changes class few times.
  std::vector<uint32_t> split(const std::vector<uint32_t>& open) {
    std::map<Signature, std::vector<uint32_t>> groups;
    for (const uint32_t node : open) groups[signature_of(node)].push_back(node);
    struct Parts {
      std::vector<const std::vector<uint32_t>*> groups;
      size_t count = 0;  // of nodes
    };
    std::map<uint32_t, Parts> classes;
    for (const auto& [signature, nodes] : groups) {
      Parts& parts = classes[signature[0]];
      parts.groups.push_back(&nodes), parts.count += nodes.size();
    }
    std::vector<std::pair<uint32_t, uint32_t>> changes;
    for (auto& [old, parts] : classes) {
      const size_t others = members_[old] - parts.count;  // whose signature is another
      const auto largest = std::max_element(parts.groups.begin(), parts.groups.end(),
                                            [](const auto* x, const auto* y) { return x->size() < y->size(); });
      if (others == 0) parts.groups.erase(largest);
      for (const auto* nodes : parts.groups) {
        const auto added = static_cast<uint32_t>(members_.size());
        members_.push_back(static_cast<uint32_t>(nodes->size()));
        for (const uint32_t node : *nodes) changes.emplace_back(node, added);
      }
    }
    std::vector<uint32_t> next;
    for (const auto& [node, added] : changes) {
      --members_[classes_[node]];
      classes_[node] = added;
      next.insert(next.end(), into_[node].begin(), into_[node].end());
    }
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
    return next;
  }

  const Grammar& grammar_;
  const bool with_counters_;
  const std::vector<bool> empty_;
  std::vector<uint32_t> classes_, members_;  // of a node; how many a class has
  std::vector<std::vector<uint32_t>> into_;
  std::vector<uint32_t> open_;  // the nodes that the next round looks at
};

}  // namespace

PlaceClasses::PlaceClasses(const Grammar& grammar, uint32_t longest_token)
    : longest_(longest_token), stands_(levels_of(grammar, true)) {
  if (!grammar.counters.empty()) open_ = levels_of(grammar, false);
}

std::vector<std::vector<uint32_t>> PlaceClasses::levels_of(const Grammar& grammar, bool with_counters) const {
  Partition partition(grammar, with_counters);
  std::vector<std::vector<uint32_t>> levels;
  uint32_t before = 0;
  partition.refine(2);
  for (size_t level = 0; level < kLevels; ++level) {
    partition.refine(bytes_of(level) - std::exchange(before, bytes_of(level)));
    levels.push_back(partition.nodes_that_stand());
  }
  return levels;
}

size_t PlaceClasses::level_of(uint32_t bytes) const {
  size_t level = 0;
  while (level < last() && bytes_of(level) < bytes) ++level;
  return level;
}

}  // namespace transom::constraint
