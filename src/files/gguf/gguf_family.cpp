// SPDX-License-Identifier: Apache-2.0
#include "files/gguf/gguf_family.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
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
    if (architecture == known.architecture) {
      const bool is_told =
          !known.told_by.empty() && is_above_0(known.told_by) && (known.unless.empty() || !is_above_0(known.unless));
      if (is_told) return {&known, family.model_type, known.model_class};
      if (known.told_by.empty()) found = {&known, family.model_type, known.model_class};
    }
    for (const std::string& name : {known.architecture, known.encoder_architecture})
      if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  if (found.gguf) return found;
  fail("{}: general.architecture {} is not supported{} Known are: {}", file.where(), quoted(architecture),
       did_you_mean(architecture, names), fmt::join(names, ", "));
}

namespace {

bool is_number(std::string_view text) {
  constexpr size_t kMostDigits = 9;
  return !text.empty() && text.size() <= kMostDigits && text.find_first_not_of("0123456789") == text.npos;
}

// Whether they are one name; a star of the rule stands for a number.
bool fits(std::string_view name, std::string_view rule) {
  const size_t star = rule.find('*');
  if (star == rule.npos) return name == rule;
  const std::string_view before = rule.substr(0, star), after = rule.substr(star + 1);
  return name.size() > before.size() + after.size() && name.starts_with(before) && name.ends_with(after) &&
         is_number(name.substr(before.size(), name.size() - before.size() - after.size()));
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

}  // namespace

std::optional<GgufPlace> gguf_place(const std::string& module, const GgufNames& names) {
  for (const GgufName& rule : names.whole)
    if (module == rule.name) return GgufPlace{rule.gguf, &rule, -1};
  for (const GgufStack& stack : names.stacks)
    if (const auto within = in_stack(module, stack.name))
      for (const GgufName& rule : stack.rules)
        if (fits(within->rest, rule.name))
          return GgufPlace{stack.gguf + within->layer + "." + rule.gguf, &rule, std::stoll(within->layer)};
  return std::nullopt;
}

std::optional<GgufPlace> checkpoint_place(const std::string& gguf, const GgufNames& names,
                                          const std::function<bool(const std::string& gguf)>& has) {
  for (const GgufName& rule : names.whole)
    if (gguf == rule.gguf) return GgufPlace{rule.name, &rule, -1};
  for (const GgufStack& stack : names.stacks)
    if (const auto within = in_stack(gguf, stack.gguf))
      for (const GgufName& rule : stack.rules) {
        if (within->rest != rule.gguf) continue;
        if (!rule.beside.empty() && !has(stack.gguf + within->layer + "." + rule.beside)) continue;
        return GgufPlace{stack.name + within->layer + "." + rule.name, &rule, std::stoll(within->layer)};
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
