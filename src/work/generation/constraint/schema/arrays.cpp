// SPDX-License-Identifier: Apache-2.0
// Arrays: items that are counted are calls of one rule.
#include <algorithm>
#include <bit>

#include "work/generation/constraint/schema/compiler.h"
#include "work/generation/constraint/schema/facts.h"
#include "work/generation/constraint/schema/merge.h"
#include "work/generation/constraint/schema/validity.h"

namespace transom::constraint {

using Part = GrammarBuilder::Part;

Part SchemaCompiler::array(const Json& schema, const std::string& where, int depth) {
  expect_keywords(
      schema, where,
      {"items", "prefixItems", "unevaluatedItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains"});
  static const Json kAny = true;
  ArrayShape shape;
  std::vector<const Json*> first;
  if (schema.contains("prefixItems")) {
    if (!schema["prefixItems"].is_array()) fail("{}.prefixItems: expected a list", where);
    for (const Json& each : schema["prefixItems"]) first.push_back(&each);
  }
  // Nothing else has looked at the items that are left; `contains` has, so that this writes less.
  const char* rest_name = schema.contains("items") ? "items" : "unevaluatedItems";
  const Json* rest = schema.contains(rest_name) ? &schema[rest_name] : &kAny;
  const bool closed = *rest == false;
  shape.least = count_of(schema, "minItems", 0, where), shape.most = count_of(schema, "maxItems", -1, where);
  const auto prefix = static_cast<int64_t>(first.size());
  if (closed) shape.most = shape.most < 0 ? prefix : std::min(shape.most, prefix);
  const int64_t contained = schema.contains("contains") ? count_of(schema, "minContains", 1, where) : 0;
  if (contained > 1) fail("{}: minContains above 1 is not supported", where);
  if (contained == 1) shape.least = std::max<int64_t>(shape.least, 1);
  if (shape.most >= 0 && shape.most < shape.least)
    return nothing("{}: minItems {} is above maxItems {}", where, shape.least, shape.most);
  if (prefix > kMostCount)
    fail("{}: more than {} items with schemas of their own are not supported", where, kMostCount);
  if (shape.most == 0) return builder_.literal("[]");
  const bool unique = schema.contains("uniqueItems") && schema["uniqueItems"] == true && shape.most != 1;
  if (unique) {
    if (!first.empty() || contained == 1)
      fail("{}: the keyword 'uniqueItems' beside {} is not supported", where, contained ? "contains" : "prefixItems");
    return different_items(*rest, shape, where);
  }
  const auto rule_of = [&](const Json& item, const std::string& place) {
    const uint32_t rule = builder_.add_rule();
    builder_.define(rule, value(item, place, depth + 1));
    return rule;
  };
  if (!closed) shape.item = rule_of(*rest, where + ".items");
  for (size_t i = 0; i < first.size(); ++i)
    shape.first.push_back(rule_of(*first[i], fmt::format("{}.prefixItems[{}]", where, i)));
  if (contained == 0) return items(shape);
  if (!first.empty()) fail("{}: the keyword 'contains' beside prefixItems is not supported", where);
  shape.wanted = rule_of(kept({{"allOf", Json::array({*rest, schema["contains"]})}}), where + ".contains");
  return items_with(shape);
}

// The items one by one, as far as they have rules of their own; the others counted.
Part SchemaCompiler::items(const ArrayShape& shape) {
  const auto prefix = static_cast<int64_t>(shape.first.size());
  Part tail = builder_.empty();
  if (shape.item && (shape.most < 0 || shape.most > prefix)) {
    const uint32_t next = builder_.add_rule();
    std::vector<Part> sequence{builder_.call(*shape.item)};
    if (prefix > 0) sequence.insert(sequence.begin(), comma());
    builder_.define(next, builder_.sequence(sequence));
    const int64_t least = std::max<int64_t>(shape.least - prefix, 0), most = shape.most < 0 ? -1 : shape.most - prefix;
    if (prefix > 0) {
      tail = builder_.repeat([&] { return builder_.call(next); }, least, most, true);
    } else {
      // The first without a comma.
      const uint32_t later = builder_.add_rule();
      builder_.define(later, builder_.sequence({comma(), builder_.call(next)}));
      tail = builder_.sequence(
          {builder_.call(next), builder_.repeat([&] { return builder_.call(later); }, std::max<int64_t>(least - 1, 0),
                                                most < 0 ? -1 : most - 1, true)});
      if (least == 0) tail = builder_.optional(tail);
    }
  }
  for (int64_t i = shape.most < 0 ? prefix : std::min(prefix, shape.most); i-- > 0;) {
    std::vector<Part> sequence;
    if (i > 0) sequence.push_back(comma());
    sequence.push_back(builder_.call(shape.first[static_cast<size_t>(i)]));
    sequence.push_back(tail);
    tail = builder_.sequence(sequence);
    if (i >= shape.least) tail = builder_.optional(tail);
  }
  const uint32_t close = builder_.add_rule();  // one place for all counts
  builder_.define(close, builder_.literal("]"));
  return builder_.sequence({builder_.literal("["), tail, builder_.call(close)});
}

// At least one of the items is a wanted one.
Part SchemaCompiler::items_with(const ArrayShape& shape) {
  const int64_t counted = std::max<int64_t>({shape.least, shape.most, 1});
  constexpr int64_t kMostStates = 4000;
  if (counted > kMostStates) fail("contains: more than {} items are not supported beside it", kMostStates);
  // Rules of what may follow behind so many items, without and with a wanted one; the last is for all that are more.
  std::vector<uint32_t> without, with;
  for (int64_t i = 0; i <= counted; ++i) without.push_back(builder_.add_rule()), with.push_back(builder_.add_rule());
  for (int64_t i = 0; i <= counted; ++i) {
    const auto at = static_cast<size_t>(i), behind = static_cast<size_t>(std::min(i + 1, counted));
    const bool full = shape.most >= 0 && i >= shape.most;
    const auto item = [&](uint32_t rule, uint32_t then) {
      std::vector<Part> sequence;
      if (i > 0) sequence.push_back(comma());
      sequence.push_back(builder_.call(rule)), sequence.push_back(builder_.call(then));
      return builder_.sequence(sequence);
    };
    std::vector<Part> before, after;
    if (!full) {
      if (shape.item) before.push_back(item(*shape.item, without[behind]));
      before.push_back(item(*shape.wanted, with[behind]));
      if (shape.item) after.push_back(item(*shape.item, with[behind]));
    }
    if (i >= shape.least) after.push_back(builder_.empty());
    builder_.define(without[at], builder_.either(before));
    builder_.define(with[at], builder_.either(after));
  }
  return builder_.sequence({builder_.literal("["), builder_.call(without[0]), builder_.literal("]")});
}

// Each of a list of values at most once: in any order where they are few, else in the order of the list.
Part SchemaCompiler::different_items(const Json& item, const ArrayShape& shape, const std::string& where) {
  constexpr size_t kMostInAnyOrder = 8, kMostInOrder = 1000;
  const Json merged = merged_schema(item, root_, where, work_);
  std::vector<Json> values;
  if (merged.is_object()) {
    if (const auto listed = listed_values(merged)) {
      for (const Json* each : *listed) {
        const bool known =
            std::any_of(values.begin(), values.end(), [&](const Json& other) { return equal_values(other, *each); });
        if (!known && !is_certainly_invalid(*each, merged, root_, work_)) values.push_back(*each);
      }
    } else if (merged.contains("type") && merged["type"] == "boolean" && !merged.contains("not")) {
      values = {true, false};
    }
  }
  if (values.empty() || values.size() > kMostInOrder)
    fail(
        "{}: the keyword 'uniqueItems' is supported for booleans and items of an enum of at most {} values, "
        "not for free strings, numbers or objects; leave it out",
        where, kMostInOrder);
  const auto count = static_cast<int64_t>(values.size());
  const int64_t most = shape.most < 0 ? count : std::min(shape.most, count);
  if (most < shape.least) return nothing("{}: minItems {} is more than there are different items", where, shape.least);
  const auto member = [&](int64_t written, size_t which, uint32_t then) {
    std::vector<Part> sequence;
    if (written > 0) sequence.push_back(comma());
    sequence.push_back(literal_value(values[which]));
    sequence.push_back(builder_.call(then));
    return builder_.sequence(sequence);
  };
  std::map<std::pair<uint32_t, int64_t>, uint32_t> rules;
  const auto add_rule = [&](uint32_t which, int64_t written) { return rules[{which, written}] = builder_.add_rule(); };
  const auto in_brackets = [&](uint32_t rule) {
    return builder_.sequence({builder_.literal("["), builder_.call(rule), builder_.literal("]")});
  };
  if (values.size() <= kMostInAnyOrder) {  // by the set of those that are written
    for (uint32_t set = 0; set < (1u << count); ++set) add_rule(set, 0);
    for (uint32_t set = 0; set < (1u << count); ++set) {
      const int64_t written = std::popcount(set);
      std::vector<Part> parts;
      if (written >= shape.least) parts.push_back(builder_.empty());
      for (size_t i = 0; i < values.size() && written < most; ++i)
        if (!(set >> i & 1)) parts.push_back(member(written, i, rules[{set | 1u << i, 0}]));
      builder_.define(rules[{set, 0}], builder_.either(parts));
    }
    return in_brackets(rules[{0, 0}]);
  }
  // By the place in the list, and how many are written as far as that matters.
  const int64_t counted = std::max<int64_t>({1, shape.least, most < count ? most : 0});
  if (counted * count > kMostCount) fail("{}: so many different items are not counted", where);
  for (uint32_t i = 0; i <= values.size(); ++i)
    for (int64_t written = 0; written <= counted; ++written) add_rule(i, written);
  for (uint32_t i = 0; i <= values.size(); ++i)
    for (int64_t written = 0; written <= counted; ++written) {
      std::vector<Part> parts;
      const bool full = most < count && written >= most;
      if (i == values.size()) {
        if (written >= shape.least) parts.push_back(builder_.empty());
      } else {
        parts.push_back(builder_.call(rules[{i + 1, written}]));
        if (!full) parts.push_back(member(written, i, rules[{i + 1, std::min(written + 1, counted)}]));
      }
      builder_.define(rules[{i, written}], builder_.either(parts));
    }
  return in_brackets(rules[{0, 0}]);
}

}  // namespace transom::constraint
