// SPDX-License-Identifier: Apache-2.0
// FIRST and FOLLOW of the construction of parsers (Aho, Lam, Sethi, Ullman: Compilers, 4.4.2), for rules that are
// automata. Counters are not looked at.
#include "work/generation/constraint/tokens/bytes_behind.h"

#include <unordered_map>

namespace transom::constraint {
namespace {

class Following {
 public:
  explicit Following(const Grammar& grammar)
      : grammar_(grammar), ends_(grammar.nodes.size(), false), first_(grammar.nodes.size()) {
    find_ends();
    find_first();
  }

  // For each rule.
  std::vector<ByteSet> behind_rules(const std::vector<std::vector<uint32_t>>& nodes_of) const {
    std::vector<ByteSet> behind(grammar_.rules.size());
    std::vector<std::vector<uint32_t>> passed_to(grammar_.rules.size());  // what follows the one follows the others
    for (uint32_t rule = 0; rule < nodes_of.size(); ++rule)
      for (const uint32_t node : nodes_of[rule])
        for (const Grammar::Call& call : grammar_.nodes[node].calls) {
          behind[call.rule] |= first_[call.target];
          if (ends_[call.target]) passed_to[rule].push_back(call.rule);
        }
    spread(behind, passed_to);
    return behind;
  }

 private:
  static void spread(std::vector<ByteSet>& sets, const std::vector<std::vector<uint32_t>>& to) {
    std::vector<uint32_t> open;
    for (uint32_t i = 0; i < sets.size(); ++i) open.push_back(i);
    while (!open.empty()) {
      const uint32_t from = open.back();
      open.pop_back();
      for (const uint32_t each : to[from])
        if ((sets[from] & ~sets[each]).any()) sets[each] |= sets[from], open.push_back(each);
    }
  }

  bool is_empty(uint32_t rule) const { return ends_[grammar_.rules[rule]]; }

  // The nodes from which the rule may end with nothing read.
  void find_ends() {
    std::vector<std::vector<std::pair<uint32_t, uint32_t>>> begins(grammar_.nodes.size());  // calls: node, target
    std::vector<std::vector<std::pair<uint32_t, uint32_t>>> behind(grammar_.nodes.size());  // calls: node, rule
    std::vector<uint32_t> open;
    const auto add = [&](uint32_t node) {
      if (!ends_[node]) ends_[node] = true, open.push_back(node);
    };
    for (uint32_t node = 0; node < grammar_.nodes.size(); ++node)
      for (const Grammar::Call& call : grammar_.nodes[node].calls) {
        begins[grammar_.rules[call.rule]].emplace_back(node, call.target);
        behind[call.target].emplace_back(node, call.rule);
      }
    for (uint32_t node = 0; node < grammar_.nodes.size(); ++node)
      if (grammar_.nodes[node].ends) add(node);
    while (!open.empty()) {
      const uint32_t node = open.back();
      open.pop_back();
      for (const auto& [caller, target] : begins[node])
        if (ends_[target]) add(caller);
      for (const auto& [caller, rule] : behind[node])
        if (is_empty(rule)) add(caller);
    }
  }

  void find_first() {
    std::vector<std::vector<uint32_t>> to(grammar_.nodes.size());
    for (uint32_t node = 0; node < grammar_.nodes.size(); ++node) {
      for (const Grammar::ByteEdge& edge : grammar_.nodes[node].bytes)
        for (int byte = edge.low; byte <= edge.high; ++byte) first_[node].set(static_cast<size_t>(byte));
      for (const Grammar::Call& call : grammar_.nodes[node].calls) {
        to[grammar_.rules[call.rule]].push_back(node);
        if (is_empty(call.rule)) to[call.target].push_back(node);
      }
    }
    spread(first_, to);
  }

  const Grammar& grammar_;
  std::vector<bool> ends_;
  std::vector<ByteSet> first_;
};

std::vector<std::vector<uint32_t>> nodes_of_rules(const Grammar& grammar) {
  std::vector<std::vector<uint32_t>> result;
  std::vector<uint32_t> seen(grammar.nodes.size(), UINT32_MAX);
  for (uint32_t rule = 0; rule < grammar.rules.size(); ++rule) {
    std::vector<uint32_t>& nodes = result.emplace_back();
    const auto add = [&](uint32_t node) {
      if (seen[node] != rule) seen[node] = rule, nodes.push_back(node);
    };
    add(grammar.rules[rule]);
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Grammar::Node& node = grammar.nodes[nodes[i]];
      for (const Grammar::ByteEdge& edge : node.bytes) add(edge.target);
      for (const Grammar::Call& call : node.calls) add(call.target);
    }
  }
  return result;
}

}  // namespace

BytesBehind::BytesBehind(const Grammar& grammar, const std::vector<uint32_t>& alike)
    : sets_(1), numbers_(grammar.nodes.size(), 0) {
  const std::vector<std::vector<uint32_t>> nodes_of = nodes_of_rules(grammar);
  const std::vector<ByteSet> behind = Following(grammar).behind_rules(nodes_of);
  std::vector<ByteSet> of_nodes(grammar.nodes.size());
  for (uint32_t rule = 0; rule < nodes_of.size(); ++rule)
    for (const uint32_t node : nodes_of[rule]) of_nodes[alike[node]] |= behind[rule];
  std::unordered_map<ByteSet, uint32_t> known{{sets_[0], 0}};
  for (uint32_t node = 0; node < of_nodes.size(); ++node) {
    if (of_nodes[node].none()) continue;
    const auto [found, is_new] = known.emplace(of_nodes[node], static_cast<uint32_t>(sets_.size()));
    if (is_new) sets_.push_back(of_nodes[node]);
    numbers_[node] = found->second;
  }
}

}  // namespace transom::constraint
