// SPDX-License-Identifier: Apache-2.0
#include "sharding/pipeline/schedule.h"

#include <algorithm>
#include <tuple>

namespace transom {
namespace {

std::vector<PipelineTask> tasks_of_stage(PipelineSchedule schedule, int64_t stage, int64_t stages,
                                         int64_t micro_batches, bool backward) {
  const int64_t ahead = !backward || schedule == PipelineSchedule::kGPipe
                            ? micro_batches
                            : std::min(micro_batches, stages - stage);  // forward passes before the first backward one
  std::vector<PipelineTask> tasks;
  for (int64_t i = 0; i < ahead; ++i) tasks.push_back({stage, i, false});
  for (int64_t i = 0; backward && i < micro_batches; ++i) {
    tasks.push_back({stage, i, true});
    if (ahead + i < micro_batches) tasks.push_back({stage, ahead + i, false});
  }
  return tasks;
}

}  // namespace

std::vector<PipelineTask> pipeline_tasks(PipelineSchedule schedule, int64_t stages, int64_t micro_batches,
                                         bool backward) {
  constexpr int64_t kForward = 1, kBackward = 2;  // durations
  std::vector<std::vector<PipelineTask>> own;
  for (int64_t stage = 0; stage < stages; ++stage)
    own.push_back(tasks_of_stage(schedule, stage, stages, micro_batches, backward));
  const auto p = static_cast<size_t>(stages), m = static_cast<size_t>(micro_batches);
  // When each pass ends; -1: not yet.
  std::vector<std::vector<int64_t>> forward_end(p, std::vector<int64_t>(m, -1)), backward_end = forward_end;
  std::vector<size_t> next(p, 0);
  std::vector<int64_t> free_at(p, 0);
  std::vector<std::pair<int64_t, PipelineTask>> begun;
  for (size_t left = p * m * (backward ? 2 : 1); left > 0; --left) {
    // The task that can begin first.
    const PipelineTask* first = nullptr;
    int64_t begin = 0;
    for (size_t s = 0; s < p; ++s) {
      if (next[s] == own[s].size()) continue;
      const PipelineTask& task = own[s][next[s]];
      const auto i = static_cast<size_t>(task.micro_batch);
      int64_t needed = 0;
      if (!task.backward) needed = s == 0 ? 0 : forward_end[s - 1][i];
      else needed = s + 1 == p ? forward_end[s][i] : backward_end[s + 1][i];
      if (needed < 0) continue;
      const int64_t at = std::max(needed, free_at[s]);
      if (!first || at < begin) first = &task, begin = at;
    }
    const auto s = static_cast<size_t>(first->stage);
    const int64_t end = begin + (first->backward ? kBackward : kForward);
    (first->backward ? backward_end : forward_end)[s][static_cast<size_t>(first->micro_batch)] = end;
    free_at[s] = end;
    ++next[s];
    begun.emplace_back(begin, *first);
  }
  std::stable_sort(begun.begin(), begun.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<PipelineTask> result;
  for (const auto& [begin, task] : begun) result.push_back(task);
  return result;
}

}  // namespace transom
