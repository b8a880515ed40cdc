// SPDX-License-Identifier: Apache-2.0
// A context-free grammar over bytes as a recursive transition network: each rule is an automaton whose edges read bytes
// or call rules. Regular expressions, GBNF and JSON schemas are built of the same parts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "work/generation/constraint/grammar/counter.h"

namespace transom::constraint {

struct Grammar {
  struct ByteEdge {
    uint8_t low, high;
    uint32_t target;
    bool counts = false;  // for the counter of the rule
  };
  struct Call {
    uint32_t rule, target;  // goes on at `target` behind the rule
    bool counts = false;
  };
  // What a place leads to, edges that read nothing followed already.
  struct Node {
    std::vector<ByteEdge> bytes;
    std::vector<Call> calls;
    bool ends = false;           // the rule may end here
    uint32_t counter = 0;        // of its rule, from 1 on; 0: it does not count
    uint32_t place_in_rule = 0;  // its number for the counter
    bool is_last() const { return ends && counter == 0 && bytes.empty() && calls.empty(); }
  };
  const Counter* counter_of(uint32_t node) const {
    return nodes[node].counter == 0 ? nullptr : &counters[nodes[node].counter - 1];
  }
  std::vector<Node> nodes;
  std::vector<Counter> counters;
  std::vector<uint32_t> rules;  // the first node of each; rule 0 is the whole text
};

using CodePoints = std::vector<std::pair<uint32_t, uint32_t>>;  // first and last of each range

// Makes a grammar of parts. Each part is used once. Refuses what is larger than kMostNodes, rules that are not defined,
// rules that call themselves before they read anything, and a grammar of no text. Ways that lead to no text are left
// out, so that a part may be one that matches nothing.
class GrammarBuilder {
 public:
  static constexpr size_t kMostNodes = 100'000;
  struct Part {
    uint32_t start, end;
  };
  // A state of a finite automaton; targets are numbers of states.
  struct State {
    std::vector<Grammar::ByteEdge> edges;
    bool ends = false;
  };

  // Without counters all repetitions are written out, for those who need a finite automaton.
  explicit GrammarBuilder(bool with_counters = true) : with_counters_(with_counters) {}
  Part empty();
  Part bytes(uint8_t low, uint8_t high);
  Part literal(std::string_view text);
  Part code_points(const CodePoints& ranges);  // one character of them, as UTF-8
  Part sequence(const std::vector<Part>& parts);
  Part either(const std::vector<Part>& parts);  // none: nothing matches
  Part optional(Part part);
  Part star(Part part);
  // `most` below 0: no limit. `make` gives a part for each time that is written out. Many times are counted instead,
  // once it is known that the part reads something: by itself, or since the caller says so, where it calls rules.
  Part repeat(const std::function<Part()>& make, int64_t least, int64_t most, bool reads = false);
  Part call(uint32_t rule);
  Part automaton(const std::vector<State>& states);  // the first is where it begins
  // The same, of texts that read `least` to `most` (below 0: any number) of its counting edges.
  Part counted_automaton(const std::vector<State>& states, int64_t least, int64_t most);
  uint32_t add_rule();  // the first is that of the whole text
  Counter::Budget& counter_budget() { return counter_budget_; }
  void define(uint32_t rule, Part part);

  // `why` says more where no text is allowed.
  Grammar finish(const std::string& where, const std::string& why = {});

 private:
  struct Edge {
    enum Kind : uint8_t { kBytes, kCall, kNothing } kind;
    uint8_t low, high;
    uint32_t rule, target;
    bool counts = false;
  };
  struct Limits {
    int64_t least, most;
  };
  uint32_t add_node();
  void link(uint32_t from, uint32_t to, bool counts = false);
  bool reads_something(Part part) const;
  Part counted(Part part, int64_t least, int64_t most);
  Part written_out(const std::function<Part()>& make, int64_t least, int64_t most);
  void add_counters(Grammar& grammar);
  std::vector<bool> productive() const;
  void refuse_left_recursion(const std::string& where) const;
  Grammar without_empty_edges(const std::string& where) const;
  std::vector<std::vector<Edge>> edges_;
  std::vector<std::pair<uint32_t, uint32_t>> rules_;
  std::vector<bool> defined_;
  std::vector<std::pair<uint32_t, Limits>> counted_;  // rules
  std::vector<bool> reads_;                           // rules that are known to read something
  bool with_counters_;
  Counter::Budget counter_budget_;
};

}  // namespace transom::constraint
