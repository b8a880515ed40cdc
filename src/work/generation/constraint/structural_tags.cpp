// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/structural_tags.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"
#include "work/generation/constraint/schema/json_schema.h"

namespace transom::constraint {
namespace {

constexpr size_t kMostTriggers = 16, kMostStructures = 128, kMostBytesOfMark = 256;

struct Structure {
  std::string begin, end;
  const Json* schema;
  size_t trigger;
};

// Which of several marks a text has come to, byte by byte (Aho and Corasick, 1975).
class MarkFinder {
 public:
  explicit MarkFinder(const std::vector<std::string>& marks) : states_(1) {
    for (size_t mark = 0; mark < marks.size(); ++mark) {
      size_t at = 0;
      for (const char c : marks[mark]) {
        const auto byte = static_cast<unsigned char>(c);
        if (states_[at].next[byte] == 0) {
          states_[at].next[byte] = static_cast<uint32_t>(states_.size());
          states_.emplace_back();
        }
        at = states_[at].next[byte];
      }
      states_[at].completes.push_back(mark);
    }
    // In order of depth, so that what a state falls back to is finished.
    std::vector<uint32_t> order{0};
    for (size_t i = 0; i < order.size(); ++i) {
      const uint32_t at = order[i];
      for (size_t byte = 0; byte < 256; ++byte) {
        const uint32_t fallen = at == 0 ? 0 : states_[states_[at].fallback].next[byte];
        uint32_t& next = states_[at].next[byte];
        if (next == 0) {
          next = fallen;
          continue;
        }
        states_[next].fallback = fallen;
        for (const size_t mark : states_[fallen].completes) states_[next].completes.push_back(mark);
        order.push_back(next);
      }
    }
  }

  // Texts that end with the first mark in them, which is `mark`.
  std::vector<GrammarBuilder::State> up_to(size_t mark) const {
    return states([&](const Found& state) { return completes(state, mark); });
  }
  // Texts without a mark.
  std::vector<GrammarBuilder::State> without() const {
    return states([](const Found& state) { return state.completes.empty(); });
  }

 private:
  struct Found {
    std::array<uint32_t, 256> next{};
    uint32_t fallback = 0;
    std::vector<size_t> completes;
  };
  static bool completes(const Found& state, size_t mark) {
    return std::find(state.completes.begin(), state.completes.end(), mark) != state.completes.end();
  }
  template <typename Ends>
  std::vector<GrammarBuilder::State> states(const Ends& ends) const {
    std::vector<GrammarBuilder::State> result(states_.size());
    for (size_t at = 0; at < states_.size(); ++at) {
      result[at].ends = ends(states_[at]);
      if (!states_[at].completes.empty()) continue;
      for (size_t low = 0; low < 256;) {
        const uint32_t target = states_[at].next[low];
        size_t high = low;
        while (high + 1 < 256 && states_[at].next[high + 1] == target) ++high;
        const bool leads_on = states_[target].completes.empty() || ends(states_[target]);
        if (leads_on) result[at].edges.push_back({static_cast<uint8_t>(low), static_cast<uint8_t>(high), target});
        low = high + 1;
      }
    }
    return result;
  }

  std::vector<Found> states_;
};

std::string mark_in(const Json& object, const char* name, const std::string& where) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) fail("{}.{}: expected a string", where, name);
  const auto text = found->get<std::string>();
  if (text.size() > kMostBytesOfMark)
    fail("{}.{}: has {} bytes, at most {} are supported", where, name, text.size(), kMostBytesOfMark);
  return text;
}

std::vector<std::string> read_triggers(const Json& tags) {
  const Json list = tags.value("triggers", Json());
  if (!list.is_array() || list.empty() || list.size() > kMostTriggers)
    fail("triggers: expected a list of 1 to {} strings", kMostTriggers);
  std::vector<std::string> triggers;
  for (const Json& each : list) {
    if (!each.is_string() || each == "" || each.get_ref<const std::string&>().size() > kMostBytesOfMark)
      fail("triggers: expected strings of 1 to {} bytes, found {}", kMostBytesOfMark, quoted(dump_json(each)));
    if (std::find(triggers.begin(), triggers.end(), each) == triggers.end()) triggers.push_back(each);
  }
  return triggers;
}

std::vector<Structure> read_structures(const Json& list, const std::vector<std::string>& triggers) {
  if (!list.is_array() || list.empty() || list.size() > kMostStructures)
    fail("structures: expected a list of 1 to {}", kMostStructures);
  std::vector<Structure> structures;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("structures[{}]", i);
    if (!list[i].is_object()) fail("{}: expected an object", where);
    Structure structure{mark_in(list[i], "begin", where), mark_in(list[i], "end", where), nullptr, 0};
    const auto schema = list[i].find("schema");
    if (schema == list[i].end()) fail("{}.schema: missing", where);
    structure.schema = &*schema;
    const auto trigger = std::find_if(triggers.begin(), triggers.end(),
                                      [&](const std::string& each) { return structure.begin.starts_with(each); });
    if (trigger == triggers.end())
      fail("{}.begin: expected one of the triggers at its front, found {}", where, quoted(structure.begin));
    structure.trigger = static_cast<size_t>(trigger - triggers.begin());
    structures.push_back(std::move(structure));
  }
  return structures;
}

// The rule of `grammar` becomes the whole of the other grammar, whose rules it gets besides.
void put_in_place(Grammar& grammar, size_t rule, Grammar other) {
  const auto nodes = static_cast<uint32_t>(grammar.nodes.size()), rules = static_cast<uint32_t>(grammar.rules.size()),
             counters = static_cast<uint32_t>(grammar.counters.size());
  if (grammar.nodes.size() + other.nodes.size() > GrammarBuilder::kMostNodes)
    fail("structures: their schemas are too large together");
  for (Grammar::Node& node : other.nodes) {
    for (Grammar::ByteEdge& edge : node.bytes) edge.target += nodes;
    for (Grammar::Call& call : node.calls) call.target += nodes, call.rule += rules;
    if (node.counter != 0) node.counter += counters;
    grammar.nodes.push_back(std::move(node));
  }
  for (const uint32_t start : other.rules) grammar.rules.push_back(start + nodes);
  for (Counter& counter : other.counters) grammar.counters.push_back(std::move(counter));
  grammar.rules[rule] = grammar.rules[rules];
}

}  // namespace

Grammar structural_tags_grammar(const Json& tags) {
  if (!tags.is_object()) fail("structural_tag: expected an object");
  const std::vector<std::string> triggers = read_triggers(tags);
  static const Json kNone;
  const auto list = tags.find("structures");
  const std::vector<Structure> structures = read_structures(list == tags.end() ? kNone : *list, triggers);
  const bool needs_one = tags.value("at_least_one", Json(false)) == true,
             ends_behind = tags.value("stop_after_first", Json(false)) == true;
  const MarkFinder finder(triggers);
  GrammarBuilder builder;
  const uint32_t root = builder.add_rule();
  std::vector<uint32_t> values;  // a rule for each schema, which takes its place below
  for (size_t i = 0; i < structures.size(); ++i) {
    values.push_back(builder.add_rule());
    builder.define(values.back(), builder.literal("0"));
  }
  // Text up to a trigger, and one of its tags.
  const auto block = [&] {
    std::vector<GrammarBuilder::Part> blocks;
    for (size_t trigger = 0; trigger < triggers.size(); ++trigger) {
      std::vector<GrammarBuilder::Part> rests;
      for (size_t i = 0; i < structures.size(); ++i) {
        if (structures[i].trigger != trigger) continue;
        const std::string rest = structures[i].begin.substr(triggers[trigger].size());
        rests.push_back(
            builder.sequence({rest.empty() ? builder.empty() : builder.literal(rest), builder.call(values[i]),
                              structures[i].end.empty() ? builder.empty() : builder.literal(structures[i].end)}));
      }
      if (!rests.empty())
        blocks.push_back(builder.sequence({builder.automaton(finder.up_to(trigger)), builder.either(rests)}));
    }
    return builder.either(blocks);
  };
  const auto tail = [&] { return builder.automaton(finder.without()); };
  if (ends_behind) builder.define(root, needs_one ? block() : builder.either({tail(), block()}));
  else if (needs_one) builder.define(root, builder.sequence({block(), builder.star(block()), tail()}));
  else builder.define(root, builder.sequence({builder.star(block()), tail()}));
  Grammar grammar = builder.finish("structural_tag");
  for (size_t i = 0; i < structures.size(); ++i) {
    try {
      put_in_place(grammar, values[i], json_schema_grammar(*structures[i].schema));
    } catch (const Error& error) {
      fail(error.kind(), "structures[{}].schema: {}", i, error.what());
    }
  }
  return grammar;
}

}  // namespace transom::constraint
