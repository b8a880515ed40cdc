// SPDX-License-Identifier: Apache-2.0
// What completions are rewarded for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transom/rewards.h"

namespace transom {

struct Reward {
  std::string name;  // in the log
  RewardFunction function;
};

struct RewardContext {
  std::vector<std::string> columns;  // that the rows have
  std::string data;                  // the name of the file, for errors
};

// From what --reward_funcs names: "number:answer", "pattern:REGEX", a directory of a reward model, a registered
// function. Throws, with the word, for what is not known, columns that rows do not have, and expressions and schemas
// that are wrong.
Reward make_reward(const std::string& word, const RewardContext& context);
// All of a run, whose names differ.
std::vector<Reward> make_rewards(const std::vector<std::string>& words, const std::optional<std::string>& model,
                                 const RewardContext& context);

// ---- kinds, each in a file of its own; `argument` is what stands behind the colon

Reward answer_reward(const std::string& kind, const std::string& argument, const RewardContext& context);
Reward length_reward(const std::string& kind, const std::string& argument);
Reward form_reward(const std::string& kind, const std::string& argument);
Reward command_reward(const std::string& command);
Reward http_reward(const std::string& url);
Reward model_reward(const std::string& directory);
std::optional<Reward> registered_reward(const std::string& name);
std::vector<std::string> registered_rewards();

}  // namespace transom
