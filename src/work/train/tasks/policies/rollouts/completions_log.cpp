// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/policies/rollouts/completions_log.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/terminal/log.h"

namespace transom {

CompletionsLog::CompletionsLog(std::string directory, std::optional<int64_t> shown, bool unique_prompts)
    : directory_(std::move(directory)), shown_(shown), unique_prompts_(unique_prompts) {}

void CompletionsLog::add(const LoggedCompletions& all, int64_t number) const {
  std::string lines;
  std::set<std::string> seen;
  int64_t left = shown_.value_or(static_cast<int64_t>(all.prompts.size()));
  for (size_t i = 0; i < all.prompts.size(); ++i) {
    Json rewards = Json::object();
    std::string said;
    for (size_t k = 0; k < all.rewards.names.size(); ++k) {
      const float reward = all.rewards.of_rewards[k].at(i);
      rewards[all.rewards.names[k]] = std::isnan(reward) ? Json() : Json(reward);
      said += fmt::format("{} {}, ", all.rewards.names[k], std::isnan(reward) ? "none" : fmt::format("{}", reward));
    }
    lines += dump_json({{"prompt", all.prompts[i]},
                        {"completion", all.completions[i]},
                        {"completion_ids", all.completion_ids[i]},
                        {"rewards", rewards},
                        {"advantage", all.advantages[i]}}) +
             "\n";
    const bool is_new = seen.insert(all.prompts[i]).second;
    if (left <= 0 || (unique_prompts_ && !is_new)) continue;
    --left;
    log(LogLevel::kInfo,
        fmt::format("{}\n»{}«\n{}advantage {:.3f}", all.prompts[i], all.completions[i], said, all.advantages[i]));
  }
  const fs::path folder = fs::path(directory_) / "completions";
  make_directories(folder);
  write_file(folder / fmt::format("completions_{:05}.jsonl", number), lines);
}

}  // namespace transom
