// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/schema/validity.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json/json.h"
#include "work/generation/constraint/grammar/patterns.h"
#include "work/generation/constraint/schema/facts.h"
#include "work/generation/constraint/schema/merge.h"

namespace transom::constraint {
namespace {

using Answer = std::optional<bool>;  // nothing: not known

Answer opposite_of(Answer answer) { return answer ? Answer(!*answer) : answer; }

// What several answers say together: one `deciding` is enough, one that is not known leaves it open.
class Together {
 public:
  explicit Together(bool deciding) : deciding_(deciding), answer_(!deciding) {}
  // Whether more can change it.
  bool add(Answer each) {
    if (each == deciding_) answer_ = deciding_;
    else if (!each) answer_ = std::nullopt;
    return answer_ != deciding_;
  }
  Answer answer() const { return answer_; }

 private:
  bool deciding_;
  Answer answer_;
};

class Validity {
 public:
  Validity(const Json& root, int64_t& work) : root_(root), work_(work) {}

  Answer of(const Json& value, const Json& schema, int depth) {
    constexpr int kDeepest = 64;
    if (--work_ < 0 || depth > kDeepest) return std::nullopt;
    if (schema.is_boolean()) return schema.get<bool>();
    if (!schema.is_object()) return std::nullopt;
    Together all(false);
    for (const auto& [name, content] : schema.items())
      if (!only_describes(name) && !all.add(keyword(name, content, value, schema, depth + 1))) break;
    return all.answer();
  }

 private:
  Answer keyword(const std::string& name, const Json& content, const Json& value, const Json& schema, int depth) {
    if (name == "$ref") return reference(content, value, depth);
    if (name == "type") return of_type(content, value, schema);
    if (name == "const" || name == "enum") {
      const Json* const list = name == "enum" ? &content : nullptr;
      if (list && !list->is_array()) return std::nullopt;
      work_ -= static_cast<int64_t>(content.size());
      return list ? std::any_of(list->begin(), list->end(), [&](const Json& each) { return equal_values(value, each); })
                  : equal_values(value, content);
    }
    if (name == "not") return opposite_of(of(value, content, depth));
    if (name == "allOf" || name == "anyOf" || name == "oneOf") return of_list(name, content, value, depth);
    if (name == "if") {
      const Answer holds = of(value, content, depth);
      const auto branch = holds ? schema.find(*holds ? "then" : "else") : schema.end();
      if (!holds) return schema.contains("then") || schema.contains("else") ? Answer() : Answer(true);
      return branch == schema.end() ? Answer(true) : of(value, *branch, depth);
    }
    static const std::set<std::string, std::less<>> kSayNothing{
        "then", "else", "format", "nullable", "additionalItems", "minContains", "maxContains"};
    if (kSayNothing.contains(name)) return true;
    if (value.is_number()) return of_number(name, content, value.get<double>(), schema);
    if (value.is_string()) return of_string(name, content, value);
    if (value.is_array()) return of_array(name, content, value, schema, depth);
    if (value.is_object()) return of_object(name, content, value, schema, depth);
    return owned(name) ? Answer(true) : Answer();
  }

  // Keywords about one type say nothing of values of another.
  static bool owned(std::string_view name) {
    static const std::set<std::string, std::less<>> kOwned{"minimum",
                                                           "maximum",
                                                           "exclusiveMinimum",
                                                           "exclusiveMaximum",
                                                           "multipleOf",
                                                           "minLength",
                                                           "maxLength",
                                                           "pattern",
                                                           kMorePatterns,
                                                           "items",
                                                           "prefixItems",
                                                           "minItems",
                                                           "maxItems",
                                                           "uniqueItems",
                                                           "contains",
                                                           "unevaluatedItems",
                                                           "properties",
                                                           "required",
                                                           "patternProperties",
                                                           "additionalProperties",
                                                           "minProperties",
                                                           "maxProperties",
                                                           "propertyNames",
                                                           "dependentRequired",
                                                           "dependentSchemas",
                                                           "dependencies",
                                                           "unevaluatedProperties"};
    return kOwned.contains(name);
  }

  Answer reference(const Json& name, const Json& value, int depth) {
    try {
      return of(value, referred(name, root_, "schema"), depth);
    } catch (const Error&) {  // the grammar of the schema refuses it, by name
      return std::nullopt;
    }
  }

  static Answer of_type(const Json& types, const Json& value, const Json& schema) {
    const auto is = [&](const Json& name) { return name == type_of(value) || (name == "integer" && is_whole(value)); };
    if (value.is_null() && schema.value("nullable", Json()) == true) return true;
    return types.is_array() ? std::any_of(types.begin(), types.end(), is) : is(types);
  }

  Answer of_list(const std::string& name, const Json& list, const Json& value, int depth) {
    if (!list.is_array()) return std::nullopt;
    Together together(name != "allOf");
    int holding = 0, open = 0;
    for (const Json& each : list) {
      const Answer answer = of(value, each, depth);
      holding += answer == true, open += !answer;
      if (!together.add(answer) && name != "oneOf") break;
    }
    if (name != "oneOf") return together.answer();
    if (holding > 1) return false;
    return open == 0 ? Answer(holding == 1) : Answer();
  }

  static Answer of_number(const std::string& name, const Json& content, double value, const Json& schema) {
    const auto limit = content.is_number() ? content.get<double>() : 0;
    const auto is_excluded = [&](const char* keyword) { return schema.value(keyword, Json()) == true; };
    if (name == "multipleOf") {
      const double times = value / limit;
      if (!content.is_number() || limit <= 0 || !std::isfinite(times)) return std::nullopt;
      constexpr double kNear = 1e-9;  // decimals are no doubles
      return std::abs(times - std::round(times)) <= kNear * std::max(1.0, std::abs(times));
    }
    if (name.starts_with("exclusive")) {
      if (content.is_boolean()) return true;
      if (!content.is_number()) return std::nullopt;
      return name == "exclusiveMinimum" ? value > limit : value < limit;
    }
    if (name != "minimum" && name != "maximum") return owned(name) ? Answer(true) : Answer();
    if (!content.is_number()) return std::nullopt;
    if (name == "minimum") return is_excluded("exclusiveMinimum") ? value > limit : value >= limit;
    return is_excluded("exclusiveMaximum") ? value < limit : value <= limit;
  }

  Answer of_string(const std::string& name, const Json& content, const Json& value) {
    if (name == "pattern" || name == kMorePatterns) {
      Together all(false);
      for (const Json& each : content.is_array() ? content : Json::array({content}))
        all.add(each.is_string() ? matches(each.get<std::string>(), value.get<std::string>()) : Answer());
      return all.answer();
    }
    return counted(name, "Length", content, length_of(value));
  }

  static Answer counted(const std::string& name, const std::string& what, const Json& content, double count) {
    if (name != "min" + what && name != "max" + what) return owned(name) ? Answer(true) : Answer();
    if (!content.is_number()) return std::nullopt;
    return name.starts_with("min") ? count >= content.get<double>() : count <= content.get<double>();
  }

  Answer matches(const std::string& pattern, const std::string& text) {
    constexpr int64_t kWorkOfPattern = 40'000;
    if ((work_ -= kWorkOfPattern) < 0) return std::nullopt;
    try {
      return matches_pattern(pattern, text);
    } catch (const Error&) {  // the grammar of the schema refuses it, by name
      return std::nullopt;
    }
  }

  Answer of_array(const std::string& name, const Json& content, const Json& value, const Json& schema, int depth) {
    Together all(false);
    if (name == "uniqueItems" && content == true) {
      for (size_t i = 0; i < value.size(); ++i)
        for (size_t j = 0; j < i; ++j) {
          if (--work_ < 0) return std::nullopt;
          if (equal_values(value[i], value[j])) return false;
        }
      return true;
    }
    if (name == "contains") return of_contains(content, value, schema, depth);
    if (name == "unevaluatedItems") return std::nullopt;
    const bool lists = content.is_array();
    if (name == "prefixItems" || (name == "items" && lists)) {
      const auto rest = name == "items" ? schema.find("additionalItems") : schema.end();
      for (size_t i = 0; i < value.size(); ++i)
        if (i < content.size()) all.add(of(value[i], content[i], depth));
        else if (rest != schema.end()) all.add(of(value[i], *rest, depth));
      return all.answer();
    }
    if (name != "items") return counted(name, "Items", content, static_cast<double>(value.size()));
    const auto first = schema.find("prefixItems");
    const size_t begin = first != schema.end() && first->is_array() ? first->size() : 0;
    for (size_t i = begin; i < value.size(); ++i) all.add(of(value[i], content, depth));
    return all.answer();
  }

  Answer of_contains(const Json& content, const Json& value, const Json& schema, int depth) {
    double found = 0;
    bool open = false;
    for (const Json& each : value) {
      const Answer answer = of(each, content, depth);
      found += answer == true, open = open || !answer;
    }
    if (open) return std::nullopt;
    const Counts counts = counts_of(schema, "Contains");
    return found >= (schema.contains("minContains") ? counts.least : 1) && found <= counts.most;
  }

  Answer of_object(const std::string& name, const Json& content, const Json& value, const Json& schema, int depth) {
    if (name == "required") return has_all(content, value);
    if (name == "properties" || name == "patternProperties" || name == "additionalProperties" ||
        name == "propertyNames")
      return of_members(name, content, value, schema, depth);
    if (name == "dependentRequired" || name == "dependentSchemas" || name == "dependencies") {
      if (!content.is_object()) return std::nullopt;
      Together all(false);
      for (const auto& [key, said] : content.items())
        if (value.contains(key)) all.add(said.is_array() ? has_all(said, value) : of(value, said, depth));
      return all.answer();
    }
    if (name == "unevaluatedProperties") return std::nullopt;
    return counted(name, "Properties", content, static_cast<double>(value.size()));
  }

  static Answer has_all(const Json& names, const Json& value) {
    if (!names.is_array()) return std::nullopt;
    return std::all_of(names.begin(), names.end(),
                       [&](const Json& each) { return !each.is_string() || value.contains(each.get<std::string>()); });
  }

  Answer of_members(const std::string& name, const Json& content, const Json& value, const Json& schema, int depth) {
    Together all(false);
    const auto named = schema.find("properties"), patterns = schema.find("patternProperties");
    for (const auto& [key, member] : value.items()) {
      if (name == "propertyNames") {
        all.add(of(Json(key), content, depth));
      } else if (name == "properties") {
        if (const auto found = content.find(key); found != content.end()) all.add(of(member, *found, depth));
      } else if (name == "patternProperties") {
        for (const auto& [pattern, said] : content.items()) {
          const Answer is_about = matches(pattern, key);
          if (is_about != false) all.add(is_about ? of(member, said, depth) : Answer());
        }
      } else {
        Together none(true);
        none.add(named != schema.end() && named->contains(key));
        if (patterns != schema.end())
          for (const auto& [pattern, said] : patterns->items()) none.add(matches(pattern, key));
        if (none.answer() != true) all.add(none.answer() ? of(member, content, depth) : Answer());
      }
    }
    return all.answer();
  }

  const Json& root_;
  int64_t& work_;
};

}  // namespace

std::optional<bool> is_valid(const Json& value, const Json& schema, const Json& root, int64_t& work, int depth) {
  return Validity(root, work).of(value, schema, depth);
}

}  // namespace transom::constraint
