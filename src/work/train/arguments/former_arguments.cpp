// SPDX-License-Identifier: Apache-2.0
#include "work/train/arguments/former_arguments.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/json/json.h"
#include "work/train/arguments/whole_rows.h"

namespace transom {
namespace {

// Switches of former versions, and of scripts, that stand for a value of another argument.
struct Switch {
  std::string_view name, stands_for, value;
};
constexpr Switch kSwitches[] = {{"group_by_length", "train_sampling_strategy", "group_by_length"},
                                {"adafactor", "optim", "adafactor"},
                                {"offset_noise", "noise_offset", "0.1"}};

const Switch* find_switch(std::string_view name) {
  for (const Switch& each : kSwitches)
    if (each.name == name) return &each;
  return nullptr;
}

// Accelerate's argument, which names a type; empty: none.
constexpr std::string_view kMixedPrecision = "mixed_precision";
std::string switch_of_precision(std::string_view type) {
  if (type == "no") return {};
  if (type == "bf16" || type == "fp16") return std::string(type);
  fail(ErrorKind::kUsage, "{}: expected one of no, bf16, fp16, found {}", kMixedPrecision, quoted(type));
}

// What configurations of TRL say where nothing was given: TRL's own default, or a device's.
bool says_nothing(std::string_view name, const Json& value) {
  if (name == "pad_to_multiple_of") return value == "auto";
  return value.is_null() && (name == "bf16" || name == "activation_checkpointing" || name == "pad_token");
}

// Configurations of preferences name what models with an encoder would need; those of policies, which write
// completions, mean texts without an end by it.
bool is_of_no_policy(const Json& object, std::string_view name, const Json& value) {
  return name == "max_completion_length" && value.is_null() && !object.contains("num_generations") &&
         !object.contains("reward_funcs");
}

// Of TRL, too: a number for all epochs is a list of one.
bool is_list_of_one(std::string_view name, const Json& value) {
  return name == "beta" && value.is_array() && value.size() == 1;
}

}  // namespace

Json modernised(const Json& object) {
  if (!object.is_object()) return object;
  Json result = Json::object();
  for (const auto& [name, value] : object.items()) {
    if (says_nothing(name, value) || is_of_no_policy(object, name, value)) continue;
    const bool on = value == true || value == "true" || value == "True";
    if (const Switch* known = find_switch(name)) {
      if (on) result[std::string(known->stands_for)] = known->value;
    } else if (name == kMixedPrecision && value.is_string()) {
      if (const std::string type = switch_of_precision(value.get<std::string>()); !type.empty()) result[type] = true;
    } else {
      const bool whole = name == "max_length" && value.is_null();
      result[name] = whole ? Json(kWholeRows) : is_list_of_one(name, value) ? value[0] : value;
    }
  }
  return result;
}

std::vector<std::string> modernised(const std::vector<std::string>& flags) {
  const std::set<std::string_view> yes = {"true", "True", "yes", "1"}, no = {"false", "False", "no", "0"};
  std::vector<std::string> result;
  for (size_t i = 0; i < flags.size(); ++i) {
    const std::string_view flag = flags[i];
    const std::string_view next = i + 1 < flags.size() ? std::string_view(flags[i + 1]) : std::string_view();
    const size_t equals = std::min(flag.find('='), flag.size());
    const bool is_flag = flag.starts_with("--");
    if (is_flag && flag.substr(2, equals - 2) == kMixedPrecision) {
      const std::string type = switch_of_precision(equals < flag.size() ? flag.substr(equals + 1) : next);
      if (equals == flag.size()) ++i;
      if (!type.empty()) result.push_back("--" + type);
      continue;
    }
    if (flag == "--pad_to_multiple_of=auto") continue;
    if (flag == "--pad_to_multiple_of" && next == "auto") {
      ++i;
      continue;
    }
    const Switch* known = is_flag ? find_switch(flag.substr(2)) : nullptr;
    if (!known) {
      result.push_back(flags[i]);
      continue;
    }
    const bool off = no.contains(next);
    if (off || yes.contains(next)) ++i;
    if (!off) result.push_back(fmt::format("--{}={}", known->stands_for, known->value));
  }
  return result;
}

}  // namespace transom
