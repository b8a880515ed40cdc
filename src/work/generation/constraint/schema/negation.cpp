// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/schema/negation.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/json/json.h"
#include "work/generation/constraint/schema/conditions.h"
#include "work/generation/constraint/schema/facts.h"
#include "work/generation/constraint/schema/merge.h"

namespace transom::constraint {
namespace {

constexpr int kMostNegations = 12;  // inside of each other

// Gathers the ways to break a schema, each a schema of its own.
class Negation {
 public:
  Negation(const Json& root, int depth) : root_(root), depth_(depth) {}

  void add(const std::string& name, const Json& content, const Json& schema) {
    if (name == "type") return add_types(content);
    if (name == "required") return add_missing(content);
    if (name == "properties") return add_properties(content);
    if (name == "not") return way(content);
    if (name == "const" || name == "enum") return way({{"not", {{name, content}}}});
    if (name == "pattern") return way({{"type", "string"}, {"not", {{name, content}}}});
    if (name == "allOf" || name == "anyOf" || name == "oneOf") return add_list(name, content);
    if (name == "$ref") return add_reference(content);
    if (name == "items" && !schema.contains("prefixItems"))
      return way_of(content, [](Json other) { return Json{{"type", "array"}, {"contains", std::move(other)}}; });
    if (name == "contains" && !schema.contains("minContains") && !schema.contains("maxContains"))
      return way_of(content, [](Json other) { return Json{{"type", "array"}, {"items", std::move(other)}}; });
    if (add_limit(name, content) || add_count(name, content)) return;
    leaves_out_ = true;
  }

  std::optional<Json> result() const {
    if (ways_.empty()) return leaves_out_ ? std::nullopt : std::optional<Json>(false);
    return ways_.size() == 1 ? ways_[0] : Json{{"anyOf", ways_}};
  }

 private:
  void way(Json schema) { ways_.push_back(std::move(schema)); }

  template <class Make>
  void way_of(const Json& schema, const Make& make) {
    std::optional<Json> other = negated(schema, root_, depth_ + 1);
    if (!other) leaves_out_ = true;
    else if (*other != false) way(make(std::move(*other)));
  }

  void add_types(const Json& given) {
    const Json names = given.is_array() ? given : Json::array({given});
    Json others = Json::array();
    for (const char* type : {"object", "array", "string", "number", "boolean", "null"}) {
      const bool whole =
          std::string_view(type) == "number" && std::find(names.begin(), names.end(), "integer") != names.end();
      if (!whole && std::find(names.begin(), names.end(), type) == names.end()) others.push_back(type);
      leaves_out_ = leaves_out_ || whole;
    }
    if (!others.empty()) way({{"type", others}});
  }

  void add_missing(const Json& names) {
    if (!names.is_array()) return void(leaves_out_ = true);
    for (const Json& name : names) way({{"type", "object"}, {"not", {{"required", Json::array({name})}}}});
  }

  void add_properties(const Json& properties) {
    if (!properties.is_object()) return void(leaves_out_ = true);
    for (const auto& each : properties.items())
      way_of(each.value(), [&](Json other) {
        return Json{{"type", "object"},
                    {"required", Json::array({each.key()})},
                    {"properties", {{each.key(), std::move(other)}}}};
      });
  }

  void add_list(const std::string& name, const Json& list) {
    if (!list.is_array() || list.empty()) return void(leaves_out_ = true);
    if (name == "allOf") {
      for (const Json& each : list) way_of(each, [](Json other) { return other; });
      return;
    }
    Json all = Json::array();
    for (const Json& each : list) {
      std::optional<Json> other = negated(each, root_, depth_ + 1);
      if (!other) return void(leaves_out_ = true);
      all.push_back(std::move(*other));
    }
    if (std::find(all.begin(), all.end(), false) == all.end()) way({{"allOf", all}});
  }

  void add_reference(const Json& reference) {
    try {
      way_of(referred(reference, root_, "not"), [](Json other) { return other; });
    } catch (const Error&) {  // the grammar of the schema refuses it, by name
      leaves_out_ = true;
    }
  }

  bool add_limit(const std::string& name, const Json& content) {
    const bool is_least = name == "minimum" || name == "exclusiveMinimum";
    if (!content.is_number() || !(is_least || name == "maximum" || name == "exclusiveMaximum")) return false;
    const bool excluded = name.starts_with("exclusive");
    const char* other =
        is_least ? (excluded ? "maximum" : "exclusiveMaximum") : (excluded ? "minimum" : "exclusiveMinimum");
    way({{"type", "number"}, {other, content}});
    return true;
  }

  bool add_count(const std::string& name, const Json& content) {
    const bool is_least = name.starts_with("min");
    if (!content.is_number_unsigned() || !(is_least || name.starts_with("max"))) return false;
    const std::string what = name.substr(3);
    const char* type = what == "Length" ? "string" : what == "Items" ? "array" : what == "Properties" ? "object" : "";
    if (*type == 0) return false;
    const auto count = content.get<uint64_t>();
    if (!is_least) way({{"type", type}, {"min" + what, count + 1}});
    else if (count > 0) way({{"type", type}, {"max" + what, count - 1}});
    return true;
  }

  const Json& root_;
  int depth_;
  Json ways_ = Json::array();
  bool leaves_out_ = false;
};

}  // namespace

std::optional<Json> negated(const Json& given, const Json& root, int depth) {
  if (given.is_boolean()) return !given.get<bool>();
  if (!given.is_object() || depth > kMostNegations) return std::nullopt;
  const std::optional<Json> newer = in_newer_words(given);
  const Json& schema = newer ? *newer : given;
  Negation negation(root, depth);
  for (const auto& [name, content] : schema.items())
    if (!only_describes(name)) negation.add(name, content, schema);
  return negation.result();
}

}  // namespace transom::constraint
