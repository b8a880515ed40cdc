// SPDX-License-Identifier: Apache-2.0
// --log_completions: what a policy writes, shown and kept.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "work/train/tasks/policies/advantages.h"

namespace transom {

struct LoggedCompletions {
  std::vector<std::string> prompts, completions;
  std::vector<std::vector<int64_t>> completion_ids;
  RewardTable rewards;
  std::vector<float> advantages;
};

class CompletionsLog {
 public:
  // Files go into `directory`/completions.
  CompletionsLog(std::string directory, std::optional<int64_t> shown, bool unique_prompts);
  // Of the `number`th generation of a run, in the order of the prompts: written as completions_00012.jsonl, whose lines
  // --completions_file takes, and shown.
  void add(const LoggedCompletions& completions, int64_t number) const;

 private:
  std::string directory_;
  std::optional<int64_t> shown_;
  bool unique_prompts_;
};

}  // namespace transom
