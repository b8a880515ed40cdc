// SPDX-License-Identifier: Apache-2.0
#include "models/described/described_gguf.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "models/described/described_gguf_values.h"
#include "models/shared/rope_decoder_gguf.h"

namespace transom {
namespace {

using Is = GgufUsual::Is;
using KeyKind = GgufKey::Kind;

constexpr std::pair<std::string_view, KeyKind> kKinds[] = {{"count", KeyKind::kCount},
                                                           {"number", KeyKind::kNumber},
                                                           {"truth", KeyKind::kTruth},
                                                           {"count_if_any", KeyKind::kCountIfAny},
                                                           {"number_if_any", KeyKind::kNumberIfAny},
                                                           {"number_above_0", KeyKind::kNumberAbove0}};
// What a file says of itself, whole; all but the first two may be left out.
constexpr std::string_view kParts[] = {
    "architecture",  "model_class", "prefix", "names",       "layers", "stack",      "keys",
    "without_keys",  "rotary",      "biases", "activations", "fixed",  "stands_for", "windows",
    "architectures", "written",     "read",   "values",      "told",   "dropped",    "needs"};
constexpr std::string_view kKeyParts[] = {"key", "field", "kind", "written", "read", "older"};
constexpr std::string_view kRotaryParts[] = {"theta", "part", "theta_field", "part_field", "by_layers"};

template <typename Table>
auto find_in(const Table& table, std::string_view name) {
  return std::find_if(std::begin(table), std::end(table), [&](const auto& each) { return each.first == name; });
}

// A name may have several rules, as of norms that have other modules in other models.
Json rules_of_name(const Json& name) {
  return name.is_array() && !name.empty() && name[0].is_object() ? name : Json::array({name});
}

void check_names(const Json& file, const Json& names, const std::string& path, std::vector<std::string>& findings) {
  if (!names.is_object()) {
    findings.push_back(path + ": expected an object of names");
    return;
  }
  for (const auto& [gguf, name] : names.items())
    for (const Json& rule : rules_of_name(name)) check_gguf_rule(file, rule, path + "." + gguf, findings);
}

// A number, "missing", "null", "nothing", "not_read", or {"key": ..., "times": ..., "divisor": ...}.
bool is_usual(const Json& usual) {
  if (usual.is_number()) return true;
  if (usual.is_string())
    return is_gguf_word(std::array<std::string_view, 4>{"missing", "null", "nothing", "not_read"},
                        usual.get<std::string>());
  return usual.is_object() && usual.contains("key") && usual["key"].is_string() &&
         (!usual.contains("times") || usual["times"].is_number()) &&
         (!usual.contains("divisor") || usual["divisor"].is_string());
}

GgufUsual usual_of(const Json& usual) {
  if (usual.is_number()) return {.is = Is::kNumber, .number = usual.get<double>()};
  if (usual.is_object())
    return {.is = Is::kKey,
            .number = usual.value("times", 1.0),
            .key = usual["key"].get<std::string>(),
            .divisor = usual.value("divisor", std::string())};
  const auto& word = usual.get_ref<const std::string&>();
  return {.is = word == "null"       ? Is::kNull
                : word == "nothing"  ? Is::kNothing
                : word == "not_read" ? Is::kNotRead
                                     : Is::kMissing};
}

void check_gguf_keys(const Json& keys, std::vector<std::string>& findings) {
  if (!keys.is_array()) {
    findings.emplace_back("gguf.keys: expected a list");
    return;
  }
  for (const Json& key : keys) {
    if (!key.is_object() || !key.contains("key") || !key["key"].is_string()) {
      findings.push_back(fmt::format("gguf.keys: expected objects with a key, found {}", quoted(dump_json(key), 100)));
      continue;
    }
    const std::string where = "gguf.keys: " + key["key"].get<std::string>();
    for (const auto& [name, value] : key.items()) {
      bool right = is_gguf_word(kKeyParts, name);
      if (name == "key" || name == "field") right = value.is_string();
      if (name == "written" || name == "read") right = is_usual(value);
      if (name == "kind")
        right = value.is_string() && find_in(kKinds, value.get_ref<const std::string&>()) != std::end(kKinds);
      if (name == "older")
        right = value.is_array() &&
                std::all_of(value.begin(), value.end(), [](const Json& one) { return one.is_string(); });
      if (!right) findings.push_back(fmt::format("{}: {}: found {}", where, name, quoted(dump_json(value), 100)));
    }
  }
}

// The rules of `own` in place of those with the same name in GGUF, and besides; null takes one away.
std::vector<GgufName> changed_names(std::vector<GgufName> rules, const Json& own,
                                    const std::shared_ptr<const Json>& file) {
  std::erase_if(rules, [&](const GgufName& rule) { return own.contains(rule.gguf); });
  for (const auto& [gguf, name] : own.items())
    for (const Json& rule : rules_of_name(name))
      if (!rule.is_null()) rules.push_back(gguf_rule(gguf, rule, file));
  return rules;
}

GgufKey key_of(const Json& own) {
  GgufKey key{.key = own["key"].get<std::string>(), .field = own.value("field", std::string())};
  if (own.contains("kind")) key.kind = find_in(kKinds, own["kind"].get_ref<const std::string&>())->second;
  if (own.contains("written")) key.written = usual_of(own["written"]);
  if (own.contains("read")) key.read = usual_of(own["read"]);
  key.older = own.value("older", std::vector<std::string>());
  return key;
}

}  // namespace

void check_described_gguf(const Json& file, std::vector<std::string>& findings) {
  const Json& section = file["gguf"];
  for (const auto& [name, value] : section.items())
    if (!is_gguf_word(kParts, name)) findings.push_back(fmt::format("gguf: {}: unknown", quoted(name, 100)));
  const bool computes = section.contains("architecture") && section["architecture"].is_object();
  for (const char* name : {"architecture", "model_class"})
    if (!section.contains(name) || !(section[name].is_string() || (computes && name == std::string("architecture"))))
      findings.push_back(fmt::format("gguf: {} is missing", name));
  if (!findings.empty()) return;
  for (const char* name : {"names", "layers"})
    if (section.contains(name)) check_names(file, section[name], std::string("gguf.") + name, findings);
  check_gguf_values(file, findings);
  if (section.contains("keys")) check_gguf_keys(section["keys"], findings);
  const auto is_texts = [](const Json& list) {
    return list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& one) { return one.is_string(); });
  };
  if (computes && (!section.contains("architectures") || section["architectures"].empty()))
    findings.emplace_back("gguf.architectures: expected all that there are");
  for (const char* name : {"without_keys", "activations", "architectures", "dropped"})
    if (section.contains(name) && !is_texts(section[name]))
      findings.push_back(fmt::format("gguf.{}: expected a list of texts", name));
  for (const char* name : {"prefix", "stack"})
    if (section.contains(name) && !section[name].is_string())
      findings.push_back(fmt::format("gguf.{}: expected a text", name));
  if (section.contains("windows") &&
      (!section["windows"].is_number_unsigned() || section["windows"].get<uint64_t>() > 1 << 16))
    findings.emplace_back("gguf.windows: expected how many layers there are for one that sees all");
  for (const char* name : {"biases", "fixed", "stands_for"})
    if (section.contains(name) && !section[name].is_object())
      findings.push_back(fmt::format("gguf.{}: expected an object", name));
  if (!findings.empty()) return;
  const Json biases = section.value("biases", Json::object());
  for (const auto& [field, tensor] : biases.items())
    if (!tensor.is_string()) findings.push_back(fmt::format("gguf.biases.{}: expected a tensor", field));
  if (!section.contains("rotary") || section["rotary"].is_null()) return;
  if (!section["rotary"].is_object()) return findings.emplace_back("gguf.rotary: expected an object or null"), void();
  for (const auto& [name, value] : section["rotary"].items())
    if (!is_gguf_word(kRotaryParts, name) || (name.ends_with("field") ? !value.is_string()
                                              : name == "by_layers"   ? !value.is_boolean()
                                                                      : !value.is_number()))
      findings.push_back(fmt::format("gguf.rotary.{}: found {}", name, quoted(dump_json(value), 100)));
}

GgufFamily described_gguf(const std::shared_ptr<const Json>& file) {
  const Json& section = (*file)["gguf"];
  std::vector<std::string> architectures = section.value("architectures", std::vector<std::string>());
  if (section["architecture"].is_string()) architectures = {section["architecture"].get<std::string>()};
  GgufFamily gguf = gguf_decoder(architectures[0], section["model_class"].get<std::string>());
  gguf.more_architectures.assign(architectures.begin() + 1, architectures.end());
  add_gguf_values(gguf, file);
  gguf.activations = section.value("activations", gguf.activations);
  gguf.stands_for = section.contains("stands_for") ? section["stands_for"].dump() : gguf.stands_for;
  const std::string prefix = section.value("prefix", std::string("model."));
  GgufStack& stack = gguf.names.stacks[0];
  stack.name = prefix + section.value("stack", std::string("layers")) + ".";
  gguf.names.whole = changed_names(gguf.names.whole, section.value("names", Json::object()), file);
  stack.rules = changed_names(stack.rules, section.value("layers", Json::object()), file);
  gguf.names.dropped = section.value("dropped", std::vector<std::string>());
  const auto drop = [&](const std::string& name) {
    std::erase_if(gguf.keys, [&](const GgufKey& key) { return key.key == name; });
  };
  for (const std::string& name : section.value("without_keys", std::vector<std::string>())) drop(name);
  for (const Json& own : section.value("keys", Json::array())) {
    GgufKey key = key_of(own);
    drop(key.key);
    gguf.keys.push_back(std::move(key));
  }
  if (section.contains("rotary") && section["rotary"].is_null()) gguf.rotary.reset();
  else if (section.contains("rotary")) {
    const Json& own = section["rotary"];
    gguf.rotary = GgufRotary{.theta = own.value("theta", 10000.0),
                             .turns_part = own.contains("part"),
                             .part = own.value("part", 1.0),
                             .theta_field = own.value("theta_field", std::string()),
                             .part_field = own.value("part_field", std::string()),
                             .set_by_layers = own.value("by_layers", false)};
  }
  if (section.contains("windows")) gguf.windows = GgufWindows{.pattern = section["windows"].get<int64_t>()};
  const Json fixed = section.value("fixed", Json::object()), biases = section.value("biases", Json::object());
  for (const auto& [field, value] : fixed.items()) gguf.fixed.push_back({field, value.dump()});
  for (const auto& [field, tensor] : biases.items()) gguf.biases.emplace_back(field, tensor.get<std::string>());
  return gguf;
}

}  // namespace transom
