// SPDX-License-Identifier: Apache-2.0
// Completions as lines of JSON, and what comes back: how programs and servers are asked for rewards.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transom/rewards.h"

namespace transom {

// A line for each completion: prompt, completion, completion_ids, and the other columns of its row.
std::string reward_request_lines(const RewardRequest& request);
// A line is a number, null, or an object with "reward". `where` names who wrote it in errors; there have to be as many
// as completions.
std::vector<std::optional<double>> rewards_of_lines(std::string_view text, size_t completions,
                                                    const std::string& where);

}  // namespace transom
