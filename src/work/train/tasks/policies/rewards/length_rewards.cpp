// SPDX-License-Identifier: Apache-2.0
// Rewards of the tokens of completions: how many there are, and whether they say the same again and again.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"
#include "work/train/tasks/policies/rewards/rewards.h"

namespace transom {
namespace {

std::vector<int64_t> lengths_in(const std::string& kind, const std::string& argument, size_t count) {
  std::vector<int64_t> numbers;
  for (size_t begin = 0; begin <= argument.size();) {
    const size_t end = std::min(argument.find(',', begin), argument.size());
    int64_t value = -1;
    const auto [rest, error] = std::from_chars(argument.data() + begin, argument.data() + end, value);
    if (error != std::errc() || rest != argument.data() + end || value < 0)
      fail(ErrorKind::kUsage, "--reward_funcs: {}: expected numbers of tokens, found {}", kind, quoted(argument));
    numbers.push_back(value);
    begin = end + 1;
  }
  if (numbers.size() != count || numbers[0] < 1)
    fail(ErrorKind::kUsage, "--reward_funcs: {}: expected {} numbers of tokens, found {}", kind, count,
         quoted(argument));
  return numbers;
}

// 1 at so many tokens, less by each that is missing or too many; 0 at none.
double nearness(int64_t length, int64_t wanted) {
  return std::max(0.0, 1 - std::abs(static_cast<double>(length - wanted)) / static_cast<double>(wanted));
}

// Yu et al., "DAPO", 2025, equation 13.
double overlong(int64_t length, int64_t most, int64_t cache) {
  const int64_t free = most - cache;
  if (length <= free) return 0;
  return length <= most ? static_cast<double>(free - length) / static_cast<double>(cache) : -1;
}

// Yeo et al., "Demystifying long chain-of-thought reasoning", 2025: the part of the triples of tokens that came before.
double repetition(const std::vector<int64_t>& tokens) {
  if (tokens.size() < 3) return 0;
  std::set<std::vector<int64_t>> seen;
  for (size_t i = 0; i + 3 <= tokens.size(); ++i) seen.emplace(tokens.begin() + i, tokens.begin() + i + 3);
  return static_cast<double>(seen.size()) / static_cast<double>(tokens.size() - 2) - 1;
}

}  // namespace

Reward length_reward(const std::string& kind, const std::string& argument) {
  std::vector<int64_t> numbers;
  if (kind == "length") numbers = lengths_in(kind, argument, 1);
  if (kind == "soft_overlong_punishment_reward") {
    numbers = lengths_in(kind, argument, 2);
    if (numbers[1] > numbers[0])
      fail(ErrorKind::kUsage, "--reward_funcs: {}: expected MOST,CACHE with a cache within it, found {}", kind,
           quoted(argument));
  }
  return {kind, [kind, numbers](const RewardRequest& request) {
            std::vector<std::optional<double>> rewards;
            for (const std::vector<int64_t>& tokens : request.completion_ids) {
              const auto length = static_cast<int64_t>(tokens.size());
              rewards.emplace_back(kind == "length"      ? nearness(length, numbers[0])
                                   : numbers.size() == 2 ? overlong(length, numbers[0], numbers[1])
                                                         : repetition(tokens));
            }
            return rewards;
          }};
}

}  // namespace transom
