// SPDX-License-Identifier: Apache-2.0
// A program that reads completions as lines of JSON and writes a reward for each.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "base/processes/run_process.h"
#include "work/train/tasks/policies/rewards/rewards.h"

namespace transom {
namespace {

constexpr std::chrono::minutes kLongestCommand{10};
constexpr size_t kShownOfErrors = 400;  // bytes

std::string lines_of(const RewardRequest& request) {
  std::string lines;
  for (size_t i = 0; i < request.completions.size(); ++i) {
    Json row = Json::object();
    for (const auto& [name, values] : request.columns) row[name] = parse_json(values.at(i), name);
    row["prompt"] = request.is_chat ? parse_json(request.prompts[i], "a prompt") : Json(request.prompts[i]);
    row["completion"] = request.completions[i];
    row["completion_ids"] = request.completion_ids[i];
    lines += dump_json(row) + "\n";
  }
  return lines;
}

std::optional<double> reward_of_line(const std::string& line, size_t number) {
  const std::string where = fmt::format("--reward_funcs: command: line {} of its output", number);
  Json value = parse_json(line, where);
  if (value.is_object() && value.contains("reward")) value = Json(value["reward"]);
  if (value.is_null()) return std::nullopt;
  require(value.is_number() && std::isfinite(value.get<double>()),
          "{}: expected a number, null, or an object with reward, found {}", where, quoted(line));
  return value.get<double>();
}

std::vector<std::string> lines_in(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

Reward command_reward(const std::string& command) {
  return {"command", [command](const RewardRequest& request) {
            ProcessOutcome outcome = run_process("--reward_funcs: command", {"sh", "-c", command}, lines_of(request),
                                                 {.longest = kLongestCommand, .most_errors = kShownOfErrors});
            std::replace(outcome.errors.begin(), outcome.errors.end(), '\n', ' ');
            if (outcome.status != 0)
              fail("--reward_funcs: command: {} ended with {}{}{}", quoted(command), text_of_status(outcome.status),
                   outcome.errors.empty() ? "" : ": ", outcome.errors);
            const std::vector<std::string> lines = lines_in(outcome.output);
            require(lines.size() == request.completions.size(),
                    "--reward_funcs: command: {}: expected {} lines, a reward for each completion, found {}",
                    quoted(command), request.completions.size(), lines.size());
            std::vector<std::optional<double>> rewards;
            for (size_t i = 0; i < lines.size(); ++i) rewards.push_back(reward_of_line(lines[i], i + 1));
            return rewards;
          }};
}

}  // namespace transom
