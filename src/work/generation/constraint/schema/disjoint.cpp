// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/schema/disjoint.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "work/generation/constraint/grammar/patterns.h"
#include "work/generation/constraint/schema/facts.h"
#include "work/generation/constraint/schema/merge.h"
#include "work/generation/constraint/schema/validity.h"

namespace transom::constraint {
namespace {

const Json kAnything = true;

const Json* keyword(const Json& schema, const char* name) {
  const auto found = schema.find(name);
  return found == schema.end() ? nullptr : &*found;
}

// What the grammar writes of a schema: what is said of it may leave out some of what a schema allows.
struct Written {
  const Json& schema;
  const Json* type;  // that of the schema around it, where it has none of its own
  bool others;       // whether properties may be written that it does not name
};

// Whether it says nothing but this, and types.
bool says_only(const Json& schema, const char* name) {
  return std::all_of(schema.items().begin(), schema.items().end(), [&](const auto& each) {
    return each.key() == name || each.key() == "type" || each.key() == "nullable" || only_describes(each.key());
  });
}

class Comparison {
 public:
  explicit Comparison(const Comparing& comparing)
      : root_(comparing.root), work_(comparing.work), writes_others_(comparing.writes_others) {}

  // No text that is written is valid against `other`.
  bool excludes(const Written& written, const Json& given, int depth) {
    constexpr int kMostDepth = 16;
    if (depth > kMostDepth || --work_ < 0) return false;
    const Json &a = resolved(written.schema, root_), &b = resolved(given, root_);
    const bool refers = keyword(written.schema, "$ref") != nullptr;
    const Json* around = refers ? nullptr : written.type;
    // What stands beside a reference or alternatives names properties, too.
    bool others = written.others || (refers && !says_only(written.schema, "$ref"));
    if (b.is_boolean()) return !b.get<bool>();
    if (!a.is_object() || !b.is_object()) return false;
    if (const auto values = listed_values(a))
      return std::all_of(values->begin(), values->end(), [&](const Json* value) { return is_invalid(*value, b); });
    if (const auto values = listed_values(b))
      if (std::all_of(values->begin(), values->end(), [&](const Json* value) { return is_invalid(*value, a); }))
        return true;
    for (const char* name : {"anyOf", "oneOf", "allOf"})
      if (const Json* list = keyword(b, name); list && list->is_array() && !list->empty()) {
        const auto is_excluded = [&](const Json& each) { return excludes(written, each, depth + 1); };
        if (name[1] == 'l' ? std::any_of(list->begin(), list->end(), is_excluded)
                           : std::all_of(list->begin(), list->end(), is_excluded))
          return true;
      }
    for (const char* name : {"anyOf", "oneOf", "allOf"})
      if (const Json* list = keyword(a, name); list && list->is_array() && !list->empty()) {
        const Json* type = keyword(a, "type") ? keyword(a, "type") : around;
        others = others || !says_only(a, name);
        return std::all_of(list->begin(), list->end(), [&](const Json& each) {
          return excludes({each, type, others}, b, depth + 1);
        });
      }
    const std::set<std::string> types = types_written(a, around), allowed = types_allowed(b);
    return std::all_of(types.begin(), types.end(), [&](const std::string& type) {
      return !allowed.contains(type) || excludes_of_type(type, a, b, others, depth);
    });
  }

 private:
  // As the grammar guesses them where a schema does not name them.
  static std::set<std::string> types_written(const Json& schema, const Json* around) {
    const bool nullable = schema.value("nullable", Json(false)) == true;
    if (keyword(schema, "type")) return types_allowed(schema);
    if (around) return types_allowed({{"type", *around}, {"nullable", nullable}});
    std::set<std::string> types;
    const auto has = [&](std::initializer_list<const char*> names) {
      return std::any_of(names.begin(), names.end(), [&](const char* name) { return schema.contains(name); });
    };
    if (has({"properties", "additionalProperties", "required"})) types = {"object"};
    else if (has({"items", "prefixItems"})) types = {"array"};
    else if (has({"pattern", "minLength", "maxLength", "format"})) types = {"string"};
    else if (has({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})) types = {"number"};
    else return types_allowed(schema);
    if (nullable) types.insert("null");
    return types;
  }

  bool is_invalid(const Json& value, const Json& schema) { return is_certainly_invalid(value, schema, root_, work_); }

  bool excludes_of_type(const std::string& type, const Json& a, const Json& b, bool others, int depth) {
    if (type == "number") return !limits_of(a).meet(limits_of(b));
    if (type == "string") return !counts_of(a, "Length").meet(counts_of(b, "Length")) || excludes_pattern(a, b);
    if (type == "array") return excludes_array(a, b, depth);
    return type == "object" && excludes_object(a, b, others, depth);
  }

  // Of formats only what is written is known: validators need not look at them.
  bool excludes_pattern(const Json& a, const Json& b) {
    const Json *own = keyword(a, "pattern"), *other = keyword(b, "pattern"), *format = keyword(a, "format");
    if (!other || !other->is_string()) return false;
    std::string pattern;
    if (own && own->is_string()) pattern = own->get<std::string>();
    else if (format && format->is_string() && !keyword(a, "minLength") && !keyword(a, "maxLength"))
      if (const std::string_view known = pattern_of_format(format->get<std::string>()); !known.empty())
        pattern = fmt::format("^(?:{})$", known);
    constexpr int64_t kWorkOfPatterns = 100'000;
    if (pattern.empty() || (work_ -= kWorkOfPatterns) < 0) return false;
    try {
      return !share_a_text(pattern, other->get<std::string>());
    } catch (const Error&) {  // the grammar of the schema refuses it, by name
      return false;
    }
  }

  static const Json& item_of(const Json& schema, size_t i) {
    const Json *first = keyword(schema, "prefixItems"), *rest = keyword(schema, "items");
    if (first && first->is_array() && i < first->size()) return (*first)[i];
    return rest ? *rest : kAnything;
  }

  // The lengths, or an item that is there for certain.
  bool excludes_array(const Json& a, const Json& b, int depth) {
    const Counts written = counts_of(a, "Items"), other = counts_of(b, "Items");
    if (!written.meet(other)) return true;
    constexpr double kMostItems = 64;
    const double certain = std::min(std::max(written.least, other.least), kMostItems);
    for (size_t i = 0; static_cast<double>(i) < certain; ++i)
      if (excludes({item_of(a, i), nullptr, writes_others_}, item_of(b, i), depth + 1)) return true;
    return false;
  }

  static std::set<std::string> required_of(const Json& schema) {
    std::set<std::string> names;
    if (const Json* list = keyword(schema, "required"); list && list->is_array())
      for (const Json& name : *list)
        if (name.is_string()) names.insert(name.get<std::string>());
    return names;
  }

  // The schema of a property that may be written; null where it is never there.
  static const Json* written_property(const Json& schema, const std::string& name, bool others) {
    const Json *properties = keyword(schema, "properties"), *rest = keyword(schema, "additionalProperties");
    if (properties && properties->is_object())
      if (const Json* found = keyword(*properties, name.c_str())) return found;
    if (keyword(schema, "patternProperties")) return &kAnything;
    if (rest) return *rest == false ? nullptr : rest;
    const bool open = others || !properties || properties->empty() || keyword(schema, "minProperties") ||
                      keyword(schema, "unevaluatedProperties") || required_of(schema).contains(name);
    return open ? &kAnything : nullptr;
  }

  // What is said of a property; null where it may be anything.
  static const Json* said_of(const Json& schema, const std::string& name) {
    const Json* properties = keyword(schema, "properties");
    if (properties && properties->is_object())
      if (const Json* found = keyword(*properties, name.c_str())) return found;
    return keyword(schema, "patternProperties") ? nullptr : keyword(schema, "additionalProperties");
  }

  // A property that is there for certain, and whose contents exclude each other; or one that the other requires and
  // that is never written.
  bool excludes_object(const Json& a, const Json& b, bool others, int depth) {
    const std::set<std::string> own = required_of(a), wanted = required_of(b);
    std::set<std::string> certain = own;
    certain.insert(wanted.begin(), wanted.end());
    for (const std::string& name : certain) {
      if (--work_ < 0) return false;
      const Json *written = written_property(a, name, others), *other = said_of(b, name);
      if (!written) {
        if (wanted.contains(name)) return true;
        continue;
      }
      if (other && excludes({*written, nullptr, writes_others_}, *other, depth + 1)) return true;
    }
    return false;
  }

  const Json& root_;
  int64_t& work_;
  bool writes_others_;
};

}  // namespace

bool excludes(const Json& written, const Json* type, const Json& other, const Comparing& comparing) {
  return Comparison(comparing).excludes({written, type, comparing.writes_others}, other, 0);
}

}  // namespace transom::constraint
