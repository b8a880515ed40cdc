// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/grammar/grammar.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace transom::constraint {

uint32_t GrammarBuilder::add_node() {
  if (edges_.size() >= kMostNodes) fail("the grammar is too large: more than {} states", kMostNodes);
  edges_.emplace_back();
  return static_cast<uint32_t>(edges_.size() - 1);
}

void GrammarBuilder::link(uint32_t from, uint32_t to, bool counts) {
  edges_[from].push_back({Edge::kNothing, 0, 0, 0, to, counts});
}

GrammarBuilder::Part GrammarBuilder::empty() {
  const uint32_t node = add_node();
  return {node, node};
}

GrammarBuilder::Part GrammarBuilder::bytes(uint8_t low, uint8_t high) {
  const uint32_t start = add_node(), end = add_node();
  edges_[start].push_back({Edge::kBytes, low, high, 0, end});
  return {start, end};
}

GrammarBuilder::Part GrammarBuilder::literal(std::string_view text) {
  const uint32_t start = add_node();
  uint32_t end = start;
  for (const char c : text) {
    const uint32_t next = add_node();
    edges_[end].push_back({Edge::kBytes, static_cast<uint8_t>(c), static_cast<uint8_t>(c), 0, next});
    end = next;
  }
  return {start, end};
}

GrammarBuilder::Part GrammarBuilder::sequence(const std::vector<Part>& parts) {
  if (parts.empty()) return empty();
  for (size_t i = 1; i < parts.size(); ++i) link(parts[i - 1].end, parts[i].start);
  return {parts.front().start, parts.back().end};
}

GrammarBuilder::Part GrammarBuilder::either(const std::vector<Part>& parts) {
  if (parts.size() == 1) return parts[0];
  const uint32_t start = add_node(), end = add_node();
  for (const Part& part : parts) link(start, part.start), link(part.end, end);
  return {start, end};
}

GrammarBuilder::Part GrammarBuilder::optional(Part part) { return either({part, empty()}); }

GrammarBuilder::Part GrammarBuilder::star(Part part) {
  const uint32_t start = add_node(), end = add_node();
  link(start, part.start), link(part.end, part.start), link(part.end, end), link(start, end);
  return {start, end};
}

GrammarBuilder::Part GrammarBuilder::repeat(const std::function<Part()>& make, int64_t least, int64_t most,
                                            bool reads) {
  constexpr int64_t kMostWrittenOut = 64;  // few are as quick, and ways that lead to nothing are left out of them
  if (least < 0 || (most >= 0 && most < least)) fail("a repetition of {} to {} times is impossible", least, most);
  if (!with_counters_ || std::max(least, most) <= kMostWrittenOut) return written_out(make, least, most);
  const Part part = make();
  if (reads || reads_something(part)) return counted(part, least, most);
  bool first = true;
  return written_out([&] { return std::exchange(first, false) ? part : make(); }, least, most);
}

GrammarBuilder::Part GrammarBuilder::written_out(const std::function<Part()>& make, int64_t least, int64_t most) {
  std::vector<Part> parts;
  for (int64_t i = 0; i < least; ++i) parts.push_back(make());
  if (most < 0) {
    parts.push_back(star(make()));
    return sequence(parts);
  }
  // Each further one may be the last.
  const uint32_t end = add_node();
  uint32_t at = add_node();
  parts.push_back({at, at});
  link(at, end);
  for (int64_t i = least; i < most; ++i) {
    const Part part = make();
    link(at, part.start);
    at = part.end;
    link(at, end);
  }
  parts.back().end = end;
  return sequence(parts);
}

// A rule of its own: each time counts where it begins. Where there must be one, the rule does not end before it.
GrammarBuilder::Part GrammarBuilder::counted(Part part, int64_t least, int64_t most) {
  const uint32_t start = add_node(), between = add_node(), end = add_node(), rule = add_rule();
  link(start, part.start, true), link(part.end, between), link(between, part.start, true), link(between, end);
  if (least == 0) link(start, end);
  define(rule, {start, end});
  counted_.emplace_back(rule, Limits{least, most});
  reads_[rule] = least > 0;
  return call(rule);
}

// Whether no way through it reads nothing; rules that nothing is known of may read nothing.
bool GrammarBuilder::reads_something(Part part) const {
  std::vector<uint32_t> open{part.start}, seen{part.start};
  while (!open.empty()) {
    const uint32_t node = open.back();
    open.pop_back();
    if (node == part.end) return false;
    for (const Edge& edge : edges_[node]) {
      if (edge.kind == Edge::kBytes || (edge.kind == Edge::kCall && reads_[edge.rule])) continue;
      if (std::find(seen.begin(), seen.end(), edge.target) == seen.end())
        seen.push_back(edge.target), open.push_back(edge.target);
    }
  }
  return true;
}

GrammarBuilder::Part GrammarBuilder::call(uint32_t rule) {
  const uint32_t start = add_node(), end = add_node();
  edges_[start].push_back({Edge::kCall, 0, 0, rule, end});
  return {start, end};
}

GrammarBuilder::Part GrammarBuilder::automaton(const std::vector<State>& states) {
  const uint32_t end = add_node();
  std::vector<uint32_t> nodes;
  for (size_t i = 0; i < states.size(); ++i) nodes.push_back(add_node());
  for (size_t i = 0; i < states.size(); ++i) {
    for (const Grammar::ByteEdge& edge : states[i].edges)
      edges_[nodes[i]].push_back({Edge::kBytes, edge.low, edge.high, 0, nodes.at(edge.target), edge.counts});
    if (states[i].ends) link(nodes[i], end);
  }
  return {nodes.at(0), end};
}

GrammarBuilder::Part GrammarBuilder::counted_automaton(const std::vector<State>& states, int64_t least, int64_t most) {
  const uint32_t rule = add_rule();
  define(rule, automaton(states));
  counted_.emplace_back(rule, Limits{least, most});
  return call(rule);
}

uint32_t GrammarBuilder::add_rule() {
  rules_.emplace_back(0, 0);
  defined_.push_back(false);
  reads_.push_back(false);
  return static_cast<uint32_t>(rules_.size() - 1);
}

void GrammarBuilder::define(uint32_t rule, Part part) {
  rules_.at(rule) = {part.start, part.end};
  defined_.at(rule) = true;
}

namespace {

// Characters of one length whose bytes are ranges: [low, high] split where the last bytes wrap.
void split(uint32_t low, uint32_t high, int length, const std::function<void(uint32_t, uint32_t, int)>& take) {
  for (int i = 1; i < length; ++i) {
    const uint32_t mask = (1u << (6 * i)) - 1;
    if ((low & ~mask) == (high & ~mask)) continue;
    if ((low & mask) != 0) {
      split(low, low | mask, length, take);
      return split((low | mask) + 1, high, length, take);
    }
    if ((high & mask) != mask) {
      split(low, (high & ~mask) - 1, length, take);
      return split(high & ~mask, high, length, take);
    }
  }
  take(low, high, length);
}

std::vector<uint8_t> utf8(uint32_t c, int length) {
  if (length == 1) return {static_cast<uint8_t>(c)};
  std::vector<uint8_t> bytes(static_cast<size_t>(length));
  for (int i = length - 1; i > 0; --i, c >>= 6) bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(0x80 | (c & 0x3f));
  bytes[0] = static_cast<uint8_t>((0xf00u >> length & 0xff) | c);
  return bytes;
}

}  // namespace

GrammarBuilder::Part GrammarBuilder::code_points(const CodePoints& ranges) {
  const uint32_t start = add_node(), end = add_node();
  struct Lengths {
    uint32_t first, last;
    int length;
  };
  constexpr Lengths kLengths[] = {
      {0, 0x7f, 1}, {0x80, 0x7ff, 2}, {0x800, 0xd7ff, 3}, {0xe000, 0xffff, 3}, {0x10000, 0x10ffff, 4}};
  for (const auto& [first, last] : ranges)
    for (const Lengths& each : kLengths) {
      const uint32_t low = std::max(first, each.first), high = std::min(last, each.last);
      if (low > high) continue;
      split(low, high, each.length, [&](uint32_t a, uint32_t b, int length) {
        const std::vector<uint8_t> from = utf8(a, length), to = utf8(b, length);
        uint32_t at = start;
        for (size_t i = 0; i < from.size(); ++i) {
          const uint32_t next = i + 1 == from.size() ? end : add_node();
          edges_[at].push_back({Edge::kBytes, from[i], to[i], 0, next});
          at = next;
        }
      });
    }
  return {start, end};
}

// The nodes from which the end of their rule can be reached.
std::vector<bool> GrammarBuilder::productive() const {
  struct Way {
    uint32_t from, rule;
    bool calls;
  };
  std::vector<std::vector<Way>> into(edges_.size());
  std::vector<std::vector<uint32_t>> callers(rules_.size()), begins(edges_.size());  // nodes; rules
  for (uint32_t node = 0; node < edges_.size(); ++node)
    for (const Edge& edge : edges_[node]) {
      into[edge.target].push_back({node, edge.rule, edge.kind == Edge::kCall});
      if (edge.kind == Edge::kCall) callers[edge.rule].push_back(node);
    }
  std::vector<bool> found(edges_.size(), false), rule_found(rules_.size(), false);
  std::vector<uint32_t> open;
  const auto find = [&](uint32_t node) {
    if (!found[node]) found[node] = true, open.push_back(node);
  };
  for (uint32_t rule = 0; rule < rules_.size(); ++rule) {
    begins[rules_[rule].first].push_back(rule);
    find(rules_[rule].second);
  }
  while (!open.empty()) {
    const uint32_t node = open.back();
    open.pop_back();
    for (const Way& way : into[node])
      if (!way.calls || rule_found[way.rule]) find(way.from);
    for (const uint32_t rule : begins[node]) {
      rule_found[rule] = true;
      for (const uint32_t caller : callers[rule])
        for (const Edge& edge : edges_[caller])
          if (edge.kind == Edge::kCall && edge.rule == rule && found[edge.target]) find(caller);
    }
  }
  return found;
}

// Refuses rules that call themselves before they read anything: what comes behind rules whose text may be empty counts,
// too. Without recursion, since the rules are a client's.
void GrammarBuilder::refuse_left_recursion(const std::string& where) const {
  std::vector<uint32_t> seen(edges_.size(), UINT32_MAX);
  uint32_t walk = 0;
  std::vector<uint32_t> pending;
  const auto reach = [&](uint32_t from, const std::function<void(uint32_t)>& visit, const std::vector<bool>* nullable) {
    ++walk;
    pending.assign(1, from);
    seen[from] = walk;
    while (!pending.empty()) {
      const uint32_t node = pending.back();
      pending.pop_back();
      visit(node);
      for (const Edge& edge : edges_[node]) {
        const bool passes =
            edge.kind == Edge::kNothing || (nullable && edge.kind == Edge::kCall && (*nullable)[edge.rule]);
        if (passes && seen[edge.target] != walk) seen[edge.target] = walk, pending.push_back(edge.target);
      }
    }
  };
  std::vector<bool> nullable(rules_.size(), false);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t rule = 0; rule < rules_.size(); ++rule) {
      if (nullable[rule]) continue;
      reach(
          rules_[rule].first,
          [&](uint32_t node) {
            if (node == rules_[rule].second && !nullable[rule]) nullable[rule] = changed = true;
          },
          &nullable);
    }
  }
  std::vector<std::vector<uint32_t>> first(rules_.size());
  for (size_t rule = 0; rule < rules_.size(); ++rule)
    reach(
        rules_[rule].first,
        [&](uint32_t node) {
          for (const Edge& edge : edges_[node])
            if (edge.kind == Edge::kCall) first[rule].push_back(edge.rule);
        },
        &nullable);
  // 0 not seen, 1 on the way, 2 done.
  std::vector<uint8_t> state(rules_.size(), 0);
  for (uint32_t root = 0; root < rules_.size(); ++root) {
    if (state[root] != 0) continue;
    std::vector<std::pair<uint32_t, size_t>> path{{root, 0}};
    state[root] = 1;
    while (!path.empty()) {
      auto& [rule, next] = path.back();
      if (next == first[rule].size()) {
        state[rule] = 2;
        path.pop_back();
        continue;
      }
      const uint32_t called = first[rule][next++];
      if (state[called] == 1) fail("{}: a rule calls itself before it reads anything (left recursion)", where);
      if (state[called] == 0) state[called] = 1, path.emplace_back(called, 0);
    }
  }
}

// The nodes that rules reach, with the edges that read nothing followed.
Grammar GrammarBuilder::without_empty_edges(const std::string& where) const {
  std::vector<bool> ends_rule(edges_.size(), false);
  for (const auto& [start, end] : rules_) ends_rule[end] = true;
  std::vector<uint32_t> seen(edges_.size(), UINT32_MAX);
  uint32_t walk = 0;
  Grammar grammar;
  grammar.nodes.resize(edges_.size());
  std::vector<bool> needed(edges_.size(), false);
  std::vector<uint32_t> seen_counting(edges_.size(), UINT32_MAX);
  std::vector<uint32_t> open;
  const auto need = [&](uint32_t node) {
    if (!needed[node]) needed[node] = true, open.push_back(node);
  };
  for (const auto& [start, end] : rules_) need(start);
  size_t edges = 0;
  while (!open.empty()) {
    const uint32_t from = open.back();
    open.pop_back();
    Grammar::Node& node = grammar.nodes[from];
    // A node may be reached with and without counting, behind the last of a repetition and before its next one.
    ++walk;
    std::vector<std::pair<uint32_t, bool>> ways{{from, false}};
    const auto pass = [&](uint32_t target, bool counts) {
      std::vector<uint32_t>& passed = counts ? seen_counting : seen;
      if (passed[target] != walk) passed[target] = walk, ways.emplace_back(target, counts);
    };
    seen[from] = walk;
    while (!ways.empty()) {
      const auto [each, counts] = ways.back();
      ways.pop_back();
      node.ends = node.ends || (ends_rule[each] && !counts);
      for (const Edge& edge : edges_[each]) {
        if (edge.kind == Edge::kNothing) {
          pass(edge.target, counts || edge.counts);
          continue;
        }
        if (edge.kind == Edge::kBytes) node.bytes.push_back({edge.low, edge.high, edge.target, counts || edge.counts});
        else node.calls.push_back({edge.rule, edge.target, counts});
        if (++edges > 20 * kMostNodes) fail("{}: the grammar is too large", where);
      }
    }
    for (const Grammar::ByteEdge& edge : node.bytes) need(edge.target);
    for (const Grammar::Call& call : node.calls) need(call.target);
  }
  for (const auto& [start, end] : rules_) grammar.rules.push_back(start);
  return grammar;
}

Grammar GrammarBuilder::finish(const std::string& where, const std::string& why) {
  for (size_t i = 0; i < rules_.size(); ++i)
    if (!defined_[i]) fail("{}: a rule is called and not defined", where);
  const std::vector<bool> leads_to_an_end = productive();
  if (!leads_to_an_end[rules_.at(0).first]) fail("{}", why.empty() ? where + ": no text is allowed" : why);
  for (std::vector<Edge>& edges : edges_)
    std::erase_if(edges, [&](const Edge& edge) {
      return !leads_to_an_end[edge.target] || (edge.kind == Edge::kCall && !leads_to_an_end[rules_[edge.rule].first]);
    });
  refuse_left_recursion(where);
  Grammar grammar = without_empty_edges(where);
  add_counters(grammar);
  return grammar;
}

// Each node belongs to one rule.
void GrammarBuilder::add_counters(Grammar& grammar) {
  for (const auto& [rule, limits] : counted_) {
    const auto counter = static_cast<uint32_t>(grammar.counters.size() + 1);
    std::vector<uint32_t> nodes;
    const auto number_of = [&](uint32_t node) {
      Grammar::Node& each = grammar.nodes[node];
      if (each.counter != counter) {
        each.counter = counter, each.place_in_rule = static_cast<uint32_t>(nodes.size());
        nodes.push_back(node);
      }
      return each.place_in_rule;
    };
    number_of(grammar.rules[rule]);
    std::vector<Counter::Step> steps;
    std::vector<bool> ends;
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      const Grammar::Node& node = grammar.nodes[nodes[i]];
      for (const Grammar::ByteEdge& edge : node.bytes) steps.push_back({i, number_of(edge.target), edge.counts});
      for (const Grammar::Call& call : node.calls) steps.push_back({i, number_of(call.target), call.counts});
      ends.push_back(node.ends);
    }
    grammar.counters.emplace_back(limits.least, limits.most, nodes.size(), steps, ends, counter_budget_);
  }
}

}  // namespace transom::constraint
