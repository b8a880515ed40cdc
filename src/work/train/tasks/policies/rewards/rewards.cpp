// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/policies/rewards/rewards.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/files/directories.h"

namespace transom {
namespace {

struct RewardKind {
  std::string_view name, argument;  // "": takes none
  Reward (*make)(const std::string& kind, const std::string& argument, const RewardContext& context);
};

Reward make_length(const std::string& kind, const std::string& argument, const RewardContext&) {
  return length_reward(kind, argument);
}
Reward make_form(const std::string& kind, const std::string& argument, const RewardContext&) {
  return form_reward(kind, argument);
}
Reward make_command(const std::string&, const std::string& argument, const RewardContext&) {
  return command_reward(argument);
}
Reward make_http(const std::string& kind, const std::string& argument, const RewardContext&) {
  if (argument.size() < 3 || !argument.starts_with("//"))
    fail(ErrorKind::kUsage, "--reward_funcs: expected {}://HOST/PATH, found {}", kind, quoted(kind + ":" + argument));
  return http_reward(kind + ":" + argument);
}
Reward make_model(const std::string&, const std::string& argument, const RewardContext&) {
  return model_reward(argument);
}

const RewardKind kRewardKinds[] = {
    {"exact", "COLUMN", answer_reward},
    {"number", "COLUMN", answer_reward},
    {"pattern", "REGEX", make_form},
    {"json", "", make_form},
    {"json_schema", "FILE", make_form},
    {"think_format_reward", "", make_form},
    {"length", "TOKENS", make_length},
    {"soft_overlong_punishment_reward", "MOST,CACHE", make_length},
    {"repetition_penalty_reward", "", make_length},
    {"command", "PROGRAM", make_command},
    {"http", "//HOST/PATH", make_http},
    {"https", "//HOST/PATH", make_http},
    {"model", "DIRECTORY", make_model},
};

// Of TRL, and why they are not here.
std::optional<std::string_view> instead_of(std::string_view name) {
  if (name == "accuracy_reward" || name == "reasoning_accuracy_reward" || name == "cosine_scaled_reward")
    return "mathematical expressions are not proved equal; number:COLUMN compares the last number of a completion, "
           "exact:COLUMN texts, and command:PROGRAM asks a program";
  if (name == "get_soft_overlong_punishment") return "write soft_overlong_punishment_reward:MOST,CACHE";
  if (name == "get_repetition_penalty_reward") return "write repetition_penalty_reward";
  return std::nullopt;
}

std::mutex registered_mutex;
std::map<std::string, RewardFunction>& registered_functions() {
  static std::map<std::string, RewardFunction> functions;
  return functions;
}

}  // namespace

void register_reward(const std::string& name, RewardFunction function) {
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  };
  require(!name.empty() && std::all_of(name.begin(), name.end(), allowed),
          "register_reward: expected a name of letters, digits, '_', '-' and '.', found {}", quoted(name));
  require(static_cast<bool>(function), "register_reward: {} has no function", name);
  for (const RewardKind& kind : kRewardKinds)
    require(kind.name != name, "register_reward: {} is built in; take another name", name);
  const std::lock_guard lock(registered_mutex);
  require(registered_functions().emplace(name, std::move(function)).second, "register_reward: {} is known already",
          name);
}

std::optional<Reward> registered_reward(const std::string& name) {
  const std::lock_guard lock(registered_mutex);
  const auto found = registered_functions().find(name);
  if (found == registered_functions().end()) return std::nullopt;
  return Reward{name, found->second};
}

std::vector<std::string> registered_rewards() {
  const std::lock_guard lock(registered_mutex);
  std::vector<std::string> names;
  for (const auto& [name, function] : registered_functions()) names.push_back(name);
  return names;
}

Reward make_reward(const std::string& word, const RewardContext& context) {
  const size_t colon = word.find(':');
  const std::string kind = word.substr(0, colon), argument = colon == word.npos ? "" : word.substr(colon + 1);
  std::vector<std::string> known = registered_rewards();
  for (const RewardKind& each : kRewardKinds) {
    if (each.name == kind) {
      if (each.argument.empty() != argument.empty() && (each.argument != "COLUMN"))
        fail(ErrorKind::kUsage, "--reward_funcs: {}: expected {}{}{}, found {}", kind, kind,
             each.argument.empty() ? "" : ":", each.argument, quoted(word));
      return each.make(kind, argument, context);
    }
    known.emplace_back(each.name);
  }
  if (auto found = registered_reward(word)) return *found;
  if (const auto why = instead_of(kind)) fail(ErrorKind::kUnsupported, "--reward_funcs: {}: {}", kind, *why);
  if (directory_exists(word)) return model_reward(word);
  fail(ErrorKind::kUsage, "--reward_funcs: expected one of {}, or a directory of a reward model, found {}{}",
       fmt::join(known, ", "), quoted(word), did_you_mean(kind, known));
}

std::vector<Reward> make_rewards(const std::vector<std::string>& words, const std::optional<std::string>& model,
                                 const RewardContext& context) {
  std::vector<Reward> rewards;
  if (model) rewards.push_back(model_reward(*model));
  for (const std::string& word : words) rewards.push_back(make_reward(word, context));
  if (rewards.empty())
    fail(ErrorKind::kUsage,
         "--reward_funcs: expected what completions are rewarded for (number:answer, pattern:REGEX, command:PROGRAM, a "
         "reward model ...), found nothing");
  std::map<std::string, int> times;
  for (Reward& reward : rewards)
    if (const int count = ++times[reward.name]; count > 1) reward.name += fmt::format("_{}", count);
  return rewards;
}

}  // namespace transom
