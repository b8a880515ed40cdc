// SPDX-License-Identifier: Apache-2.0
#include "files/gguf/gguf_family.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/json/json.h"
#include "files/family/family.h"
#include "files/gguf/gguf_fields.h"

namespace transom {

const GgufFamily& gguf_family(const Json& config) {
  const std::string type = text_of(config, {"model_type"}, "");
  if (const Family* family = find_family(type); family && *family->foreign.gguf) return **family->foreign.gguf;
  std::vector<std::string> names;
  for (const Family& family : families())
    if (*family.foreign.gguf) names.push_back(family.model_type);
  fail(ErrorKind::kUnsupported, "config.json: model_type {} cannot be written as GGUF; these can: {}", quoted(type),
       fmt::join(names, ", "));
}

namespace {

bool is_number(std::string_view text) {
  constexpr size_t kMostDigits = 9;
  return !text.empty() && text.size() <= kMostDigits && text.find_first_not_of("0123456789") == text.npos;
}

// A name within a stack: "model.layers.", "3", "self_attn.q_proj".
struct InStack {
  std::string layer, rest;
};
std::optional<InStack> in_stack(const std::string& name, const std::string& stack) {
  if (!name.starts_with(stack)) return std::nullopt;
  const size_t dot = name.find('.', stack.size());
  if (dot == name.npos) return std::nullopt;
  InStack found{name.substr(stack.size(), dot - stack.size()), name.substr(dot + 1)};
  if (!is_number(found.layer)) return std::nullopt;
  return found;
}

// Of each tensor in layers, "blk.N.NAME", by its name the layers that have it: {"attn_q": [0, 4]}.
Json layers_of_tensors(const GgufFile& file) {
  std::map<std::string, std::set<int64_t>> layers;
  for (const GgufTensor& tensor : file.tensors())
    if (const auto within = in_stack(tensor.name, "blk.")) {
      const std::string name = within->rest.substr(0, within->rest.rfind('.'));
      if (name.find('.') == name.npos) layers[name].insert(std::stoll(within->layer));
    }
  Json all = Json::object();
  for (const auto& [name, found] : layers) all[name] = found;
  return all;
}

}  // namespace

Json gguf_metadata_of(const GgufFile& file) {
  const std::string prefix = file.get_string("general.architecture") + ".";
  Json all = Json::object();
  for (const std::string& key : file.keys()) {
    if (!key.starts_with(prefix)) continue;
    Json* at = &all;
    std::string_view rest = std::string_view(key).substr(prefix.size());
    for (size_t dot = rest.find('.'); dot != rest.npos; dot = rest.find('.')) {
      at = &(*at)[std::string(rest.substr(0, dot))];
      if (!at->is_null() && !at->is_object()) fail("{}: key {} is below another one", file.where(), quoted(key));
      rest.remove_prefix(dot + 1);
    }
    Json& value = (*at)[std::string(rest)];
    if (!value.is_null()) fail("{}: key {} is above another one", file.where(), quoted(key));
    // The file holds 32 bits of a number, whose shortest form is meant.
    if (const auto* number = std::get_if<double>(file.find_value(key)))
      value = std::stod(fmt::format("{}", static_cast<float>(*number)));
    else std::visit([&](const auto& found) { value = found; }, *file.find_value(key));
  }
  all["tensors"] = layers_of_tensors(file);
  return all;
}

GgufClass gguf_class(const GgufFile& file) {
  const std::string architecture = file.get_string("general.architecture");
  const auto is_above_0 = [&](const std::string& key) {
    const std::vector<int64_t> numbers = file.get_ints(architecture + "." + key);
    return std::any_of(numbers.begin(), numbers.end(), [](int64_t number) { return number > 0; });
  };
  GgufClass found;
  std::vector<std::string> names;
  for (const Family& family : families()) {
    if (!*family.foreign.gguf) continue;
    const GgufFamily& known = **family.foreign.gguf;
    if (!known.encoder_architecture.empty() && architecture == known.encoder_architecture)
      return {&known, family.model_type, known.encoder_class};
    std::vector<std::string> own = known.more_architectures;
    own.push_back(known.architecture);
    if (std::find(own.begin(), own.end(), architecture) != own.end()) {
      const bool is_told = known.is_told ? known.is_told(gguf_metadata_of(file))
                                         : !known.told_by.empty() && is_above_0(known.told_by) &&
                                               (known.unless.empty() || !is_above_0(known.unless));
      if (is_told) return {&known, family.model_type, known.model_class};
      if (known.told_by.empty() && !known.is_told) found = {&known, family.model_type, known.model_class};
    }
    own.push_back(known.encoder_architecture);
    for (const std::string& name : own)
      if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  if (found.gguf) return found;
  fail("{}: general.architecture {} is not supported{} Known are: {}", file.where(), quoted(architecture),
       did_you_mean(architecture, names), fmt::join(names, ", "));
}

namespace {

// Whether they are one name; a star of the rule stands for a number.
bool fits(std::string_view name, std::string_view rule) {
  const size_t star = rule.find('*');
  if (star == rule.npos) return name == rule;
  const std::string_view before = rule.substr(0, star), after = rule.substr(star + 1);
  return name.size() > before.size() + after.size() && name.starts_with(before) && name.ends_with(after) &&
         is_number(name.substr(before.size(), name.size() - before.size() - after.size()));
}

// What of a name's ending belongs to the rule: a parameter by itself has its own in GGUF.
std::optional<std::string> bare_ending(const GgufName& rule) {
  if (rule.change == GgufChange::kBare) return rule.ending.value_or(".weight");
  return rule.ending;
}

bool is_of_module(std::string_view name) { return name.ends_with(".weight") || name.ends_with(".bias"); }

// "self_attn.q_proj.weight" by the rule of self_attn.q_proj: attn_q.weight.
std::optional<std::string> in_gguf(const std::string& parameter, const GgufName& rule) {
  if (const auto ending = bare_ending(rule)) {
    if (parameter != rule.name) return std::nullopt;
    return rule.gguf + *ending;
  }
  if (!is_of_module(parameter)) return std::nullopt;
  const size_t dot = parameter.rfind('.');
  if (dot == parameter.npos || !fits(std::string_view(parameter).substr(0, dot), rule.name)) return std::nullopt;
  return rule.gguf + parameter.substr(dot);
}

std::optional<std::string> in_checkpoint(const std::string& gguf, const GgufName& rule) {
  if (const auto ending = bare_ending(rule)) {
    if (gguf != rule.gguf + *ending) return std::nullopt;
    return rule.name;
  }
  if (!is_of_module(gguf)) return std::nullopt;
  const size_t dot = gguf.rfind('.');
  if (dot == gguf.npos || gguf.substr(0, dot) != rule.gguf) return std::nullopt;
  return rule.name + gguf.substr(dot);
}

}  // namespace

std::vector<GgufPlace> gguf_places(const std::string& parameter, const GgufNames& names, const Json* config) {
  std::vector<GgufPlace> places;
  // Whether the rule is the last one to ask.
  const auto add = [&](const std::string& rest, const std::string& prefix, const GgufName& rule, int64_t layer) {
    const auto name = in_gguf(rest, rule);
    if (!name || (config && rule.when && !rule.when(*config, layer))) return false;
    places.push_back({prefix + *name, &rule, layer});
    return !rule.rows;
  };
  for (const GgufName& rule : names.whole)
    if (add(parameter, "", rule, -1)) return places;
  for (const GgufStack& stack : names.stacks)
    if (const auto within = in_stack(parameter, stack.name))
      for (const GgufName& rule : stack.rules)
        if (add(within->rest, stack.gguf + within->layer + ".", rule, std::stoll(within->layer))) return places;
  return places;
}

std::optional<GgufPlace> checkpoint_place(const std::string& gguf, const GgufNames& names, const Json& config,
                                          const std::function<bool(const std::string& gguf)>& has) {
  for (const GgufName& rule : names.whole)
    if (const auto name = in_checkpoint(gguf, rule); name && (!rule.when || rule.when(config, -1)))
      return GgufPlace{*name, &rule, -1};
  for (const GgufStack& stack : names.stacks)
    if (const auto within = in_stack(gguf, stack.gguf))
      for (const GgufName& rule : stack.rules) {
        const auto name = in_checkpoint(within->rest, rule);
        if (!name) continue;
        const int64_t layer = std::stoll(within->layer);
        if (!rule.beside.empty() && !has(stack.gguf + within->layer + "." + rule.beside)) continue;
        if (rule.when && !rule.when(config, layer)) continue;
        return GgufPlace{stack.name + within->layer + "." + *name, &rule, layer};
      }
  return std::nullopt;
}

std::vector<int64_t> gguf_places_of_rows(GgufChange change, int64_t rows, int64_t heads, int64_t key_heads,
                                         const std::string& where) {
  if (change == GgufChange::kHeadsTogether) {
    if (heads <= 0 || rows % (3 * heads) != 0) fail("{}: {} rows are no 3 times {} heads", where, rows, heads);
    const int64_t d = rows / (3 * heads);
    std::vector<int64_t> places;
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t part = 0; part < 3; ++part)
        for (int64_t i = 0; i < d; ++i) places.push_back((part * heads + h) * d + i);
    return places;
  }
  if (change != GgufChange::kRotaryPairs && change != GgufChange::kRotaryPairsOfKeys) return {};
  const int64_t count = change == GgufChange::kRotaryPairs ? heads : key_heads;
  if (count <= 0 || rows % (2 * count) != 0) fail("{}: {} rows are no {} heads of pairs", where, rows, count);
  const int64_t d = rows / count;
  std::vector<int64_t> places;
  for (int64_t h = 0; h < count; ++h)
    for (int64_t half = 0; half < 2; ++half)
      for (int64_t i = 0; i < d / 2; ++i) places.push_back(h * d + 2 * i + half);
  return places;
}

}  // namespace transom
