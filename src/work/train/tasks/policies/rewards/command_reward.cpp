// SPDX-License-Identifier: Apache-2.0
// A program that reads completions as lines of JSON and writes a reward for each.
#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/processes/run_process.h"
#include "work/train/tasks/policies/rewards/reward_lines.h"
#include "work/train/tasks/policies/rewards/rewards.h"

namespace transom {
namespace {

constexpr std::chrono::minutes kLongestCommand{10};
constexpr size_t kShownOfErrors = 400;  // bytes

}  // namespace

Reward command_reward(const std::string& command) {
  return {"command", [command](const RewardRequest& request) {
            ProcessOutcome outcome =
                run_process("--reward_funcs: command", {"sh", "-c", command}, reward_request_lines(request),
                            {.longest = kLongestCommand, .most_errors = kShownOfErrors});
            std::replace(outcome.errors.begin(), outcome.errors.end(), '\n', ' ');
            if (outcome.status != 0)
              fail("--reward_funcs: command: {} ended with {}{}{}", quoted(command), text_of_status(outcome.status),
                   outcome.errors.empty() ? "" : ": ", outcome.errors);
            return rewards_of_lines(outcome.output, request.completions.size(),
                                    fmt::format("--reward_funcs: command: {}", quoted(command)));
          }};
}

}  // namespace transom
