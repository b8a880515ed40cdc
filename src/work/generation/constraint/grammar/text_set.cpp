// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/grammar/text_set.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"

namespace transom::constraint {
namespace {

using Nodes = std::vector<uint32_t>;

void expect_states(size_t count) {
  if (count > TextSet::kMostStates)
    fail("the patterns, names and lengths of a text need more than {} states together; make them simpler",
         TextSet::kMostStates);
}

// The edges of all the nodes, cut where one begins or ends, with the nodes that each piece leads to.
std::vector<std::pair<Grammar::ByteEdge, Nodes>> pieces_of(const Grammar& grammar, const Nodes& nodes) {
  std::vector<int> cuts;
  for (const uint32_t node : nodes)
    for (const Grammar::ByteEdge& edge : grammar.nodes[node].bytes)
      cuts.push_back(edge.low), cuts.push_back(edge.high + 1);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<std::pair<Grammar::ByteEdge, Nodes>> pieces;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    Nodes targets;
    for (const uint32_t node : nodes)
      for (const Grammar::ByteEdge& edge : grammar.nodes[node].bytes)
        if (edge.low <= cuts[i] && cuts[i] <= edge.high) targets.push_back(edge.target);
    if (targets.empty()) continue;
    std::sort(targets.begin(), targets.end());
    targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    pieces.push_back({{static_cast<uint8_t>(cuts[i]), static_cast<uint8_t>(cuts[i + 1] - 1), 0}, std::move(targets)});
  }
  return pieces;
}

}  // namespace

TextSet TextSet::of(const std::function<GrammarBuilder::Part(GrammarBuilder&)>& make) {
  GrammarBuilder builder(false);
  const uint32_t root = builder.add_rule();
  // One more text, of a byte that no text has, keeps the grammar of an empty set alive.
  constexpr uint8_t kNoByte = 0xff;
  const GrammarBuilder::Part wanted = make(builder);
  builder.define(root, builder.either({wanted, builder.bytes(kNoByte, kNoByte)}));
  const Grammar grammar = builder.finish("text");
  std::map<Nodes, uint32_t> known;
  std::vector<Nodes> open;
  TextSet set;
  const auto state_of = [&](Nodes nodes) {
    const auto [found, is_new] = known.emplace(std::move(nodes), static_cast<uint32_t>(known.size()));
    if (is_new) {
      expect_states(known.size());
      open.push_back(found->first);
      set.states_.emplace_back();
    }
    return found->second;
  };
  state_of({grammar.rules[0]});
  for (size_t i = 0; i < open.size(); ++i) {
    const Nodes nodes = open[i];
    GrammarBuilder::State state;
    for (const uint32_t node : nodes) {
      if (!grammar.nodes[node].calls.empty()) fail(ErrorKind::kInternal, "a set of texts calls a rule");
      state.ends = state.ends || grammar.nodes[node].ends;
    }
    for (auto& [edge, targets] : pieces_of(grammar, nodes)) {
      if (edge.low == kNoByte) continue;
      const uint32_t target = state_of(std::move(targets));
      if (!state.edges.empty() && state.edges.back().target == target && state.edges.back().high + 1 == edge.low)
        state.edges.back().high = edge.high;
      else state.edges.push_back({edge.low, edge.high, target});
    }
    set.states_[i] = std::move(state);
  }
  return set;
}

TextSet TextSet::multiples_of(int64_t divisor, int decimals) {
  if (divisor < 1 || divisor > 1000) fail("multipleOf: expected a number from 1 to 1000, found {}", divisor);
  const auto count = static_cast<uint32_t>(divisor), places = static_cast<uint32_t>(decimals);
  // The begin, behind the sign, then by the digits behind the point what is left of the digits so far, then behind the
  // point itself.
  const auto state_of = [&](uint32_t place, uint32_t rest) { return 2 + place * count + rest; };
  const auto behind_point = [&](uint32_t rest) { return 2 + (places + 1) * count + rest; };
  TextSet set;
  set.states_.resize(2 + (places + 1) * count + (places > 0 ? count : 0));
  expect_states(set.states_.size());
  const auto digits_from = [&](uint32_t place, uint32_t rest) {
    std::vector<Grammar::ByteEdge> edges;
    for (uint32_t digit = 0; digit < 10; ++digit) {
      const auto byte = static_cast<uint8_t>('0' + digit);
      edges.push_back({byte, byte, state_of(place, (rest * 10 + digit) % count)});
    }
    return edges;
  };
  set.states_[0].edges = set.states_[1].edges = digits_from(0, 0);
  set.states_[0].edges.insert(set.states_[0].edges.begin(), {'-', '-', 1});
  uint32_t scale = 1;  // of the digits that are not there, modulo the divisor
  for (uint32_t place = places + 1; place-- > 0; scale = scale * 10 % count)
    for (uint32_t rest = 0; rest < count; ++rest) {
      GrammarBuilder::State& state = set.states_[state_of(place, rest)];
      if (place == 0 || place < places) state.edges = digits_from(place == 0 ? 0 : place + 1, rest);
      if (place == 0 && places > 0) {
        state.edges.insert(state.edges.begin(), {'.', '.', behind_point(rest)});
        set.states_[behind_point(rest)].edges = digits_from(1, rest);
      }
      state.ends = rest * scale % count == 0;
    }
  return set;
}

// The texts of this set that are in the other (`other_ends`), or are not.
TextSet TextSet::product(const TextSet& other, bool other_ends) const {
  constexpr uint32_t kNone = UINT32_MAX;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> known;
  std::vector<std::pair<uint32_t, uint32_t>> open;
  TextSet set;
  const auto state_of = [&](uint32_t own, uint32_t others) {
    const auto [found, is_new] = known.emplace(std::pair(own, others), static_cast<uint32_t>(known.size()));
    if (is_new) {
      expect_states(known.size());
      open.push_back(found->first);
      set.states_.emplace_back();
    }
    return found->second;
  };
  state_of(0, 0);
  for (size_t i = 0; i < open.size(); ++i) {
    const auto [own, others] = open[i];
    GrammarBuilder::State state;
    state.ends = states_[own].ends && (others != kNone && other.states_[others].ends) == other_ends;
    static const std::vector<Grammar::ByteEdge> kNothing;
    const auto& right = others == kNone ? kNothing : other.states_[others].edges;
    for (const Grammar::ByteEdge& edge : states_[own].edges) {
      int at = edge.low;
      const auto add = [&](int low, int high, uint32_t target) {
        if (low > high || (target == kNone && other_ends)) return;
        state.edges.push_back({static_cast<uint8_t>(low), static_cast<uint8_t>(high), state_of(edge.target, target)});
      };
      for (const Grammar::ByteEdge& each : right) {
        const int low = std::max<int>(each.low, at), high = std::min(each.high, edge.high);
        if (low > high) continue;
        add(at, low - 1, kNone);
        add(low, high, each.target);
        at = high + 1;
      }
      add(at, edge.high, kNone);
    }
    set.states_[i] = std::move(state);
  }
  return set;
}

TextSet TextSet::both(const TextSet& other) const { return product(other, true); }
TextSet TextSet::without(const TextSet& other) const { return product(other, false); }

namespace {

// How far a character of a JSON string is read: 0 before and behind it, 1 to 3 bytes of UTF-8 to come, behind the \\ of
// an escape (4), and 1 to 4 of its digits to come (5 to 8).
constexpr uint8_t kEscape = 4;
uint8_t phase_behind(uint8_t phase, uint8_t byte) {
  if (phase == kEscape) return byte == 'u' ? 8 : 0;
  if (phase > 0) return phase == kEscape + 1 ? 0 : phase - 1;
  if (byte == '\\') return kEscape;
  return byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc0 ? 1 : 0;
}

}  // namespace

TextSet TextSet::closed() const {
  TextSet set = *this;
  const auto end = static_cast<uint32_t>(set.states_.size());
  for (GrammarBuilder::State& state : set.states_) {
    if (!std::exchange(state.ends, false)) continue;
    const auto above = [](const Grammar::ByteEdge& edge) { return edge.low > '"'; };
    state.edges.insert(std::find_if(state.edges.begin(), state.edges.end(), above), {'"', '"', end});
  }
  set.states_.push_back({{}, true});
  return set;
}

std::optional<GrammarBuilder::Part> TextSet::part_of_length(GrammarBuilder& builder, int64_t least,
                                                            int64_t most) const {
  std::map<std::pair<uint32_t, uint8_t>, uint32_t> known;
  std::vector<std::pair<uint32_t, uint8_t>> open;
  std::vector<GrammarBuilder::State> states;
  std::vector<Counter::Step> steps;
  std::vector<bool> ends;
  const auto state_of = [&](uint32_t own, uint8_t phase) {
    const auto [found, is_new] = known.emplace(std::pair(own, phase), static_cast<uint32_t>(known.size()));
    if (is_new) expect_states(known.size()), open.push_back(found->first);
    return found->second;
  };
  state_of(0, 0);
  for (uint32_t i = 0; i < open.size(); ++i) {
    const auto [own, phase] = open[i];
    GrammarBuilder::State state;
    state.ends = states_[own].ends;
    for (const Grammar::ByteEdge& edge : states_[own].edges) {
      // Cut where bytes lead to other phases.
      for (int low = edge.low; low <= edge.high;) {
        const uint8_t next = phase_behind(phase, static_cast<uint8_t>(low));
        int high = low;
        while (high < edge.high && phase_behind(phase, static_cast<uint8_t>(high + 1)) == next) ++high;
        const uint32_t target = state_of(edge.target, next);
        const bool counts = phase == 0 && low != '"';
        state.edges.push_back({static_cast<uint8_t>(low), static_cast<uint8_t>(high), target, counts});
        steps.push_back({i, target, counts});
        low = high + 1;
      }
    }
    ends.push_back(state.ends);
    states.push_back(std::move(state));
  }
  if (!Counter(least, most, states.size(), steps, ends, builder.counter_budget()).allows(0, 0)) return std::nullopt;
  return builder.counted_automaton(states, least, most);
}

bool TextSet::empty() const {
  // All states are reached.
  return std::none_of(states_.begin(), states_.end(), [](const GrammarBuilder::State& state) { return state.ends; });
}

}  // namespace transom::constraint
