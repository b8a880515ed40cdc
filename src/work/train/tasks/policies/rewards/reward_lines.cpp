// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/policies/rewards/reward_lines.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {
namespace {

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

std::optional<double> reward_of_line(const std::string& line, const std::string& where) {
  Json value = parse_json(line, where);
  if (value.is_object() && value.contains("reward")) value = Json(value["reward"]);
  if (value.is_null()) return std::nullopt;
  require(value.is_number() && std::isfinite(value.get<double>()),
          "{}: expected a number, null, or an object with reward, found {}", where, quoted(line));
  return value.get<double>();
}

}  // namespace

std::string reward_request_lines(const RewardRequest& request) {
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

std::vector<std::optional<double>> rewards_of_lines(std::string_view text, size_t completions,
                                                    const std::string& where) {
  const std::vector<std::string> lines = lines_in(text);
  require(lines.size() == completions, "{}: expected {} lines, a reward for each completion, found {}", where,
          completions, lines.size());
  std::vector<std::optional<double>> rewards;
  for (size_t i = 0; i < lines.size(); ++i)
    rewards.push_back(reward_of_line(lines[i], fmt::format("{}: line {} of the answer", where, i + 1)));
  return rewards;
}

}  // namespace transom
