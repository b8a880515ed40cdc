// SPDX-License-Identifier: Apache-2.0
// Rewards that a program brings itself: functions by name, for `--reward_funcs` of --task grpo and rloo.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace transom {

// Completions that are to be scored together. All lists have one entry a completion.
struct RewardRequest {
  std::vector<std::string> prompts;  // texts; of chats the messages as JSON
  bool is_chat = false;
  std::vector<std::string> completions;                     // texts, without special tokens
  std::vector<std::vector<int64_t>> completion_ids;         // with the token that ends them
  std::map<std::string, std::vector<std::string>> columns;  // the other columns of the rows: each value as JSON
};

// A reward for each completion; none: it says nothing about this one. Called by the thread that trains. What it gives
// may depend on the request alone where two runs are to be equal.
using RewardFunction = std::function<std::vector<std::optional<double>>(const RewardRequest& request)>;

// From now on runs of this process know the function by this name, which is also how the log calls it. Throws Error for
// a name that is empty, holds other characters than letters, digits, '_', '-' and '.', or is known. Any thread.
void register_reward(const std::string& name, RewardFunction function);

}  // namespace transom
