// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/pipeline/schedule.h"

#include <algorithm>

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

// Of a process with several stages: as many micro-batches as there are processes go through one of its stages, then
// through the next one, and so back. Where the last ones are fewer, those that are missing are left out.
std::vector<PipelineTask> tasks_of_chunks(int64_t process, int64_t processes, int64_t chunks, int64_t micro_batches,
                                          bool backward) {
  const int64_t rounds = (micro_batches + processes - 1) / processes, total = rounds * processes * chunks;
  const auto task = [&](int64_t number, bool back) {
    const int64_t chunk = number / processes % chunks;
    const int64_t batch = number / (processes * chunks) * processes + number % processes;
    return PipelineTask{(back ? chunks - 1 - chunk : chunk) * processes + process, batch, back};
  };
  const int64_t ahead = backward ? std::min(total, 2 * (processes - process - 1) + (chunks - 1) * processes) : total;
  std::vector<PipelineTask> tasks;
  for (int64_t i = 0; i < ahead; ++i) tasks.push_back(task(i, false));
  for (int64_t i = 0; backward && i < total; ++i) {
    if (ahead + i < total) tasks.push_back(task(ahead + i, false));
    tasks.push_back(task(i, true));
  }
  std::erase_if(tasks, [&](const PipelineTask& each) { return each.micro_batch >= micro_batches; });
  return tasks;
}

}  // namespace

std::vector<PipelineTask> pipeline_tasks(PipelineSchedule schedule, int64_t stages, int64_t processes,
                                         int64_t micro_batches, bool backward) {
  constexpr int64_t kForward = 1, kBackward = 2;  // durations
  std::vector<std::vector<PipelineTask>> own;
  size_t left = 0;
  for (int64_t process = 0; process < processes; ++process) {
    own.push_back(schedule == PipelineSchedule::kInterleaved
                      ? tasks_of_chunks(process, processes, stages / processes, micro_batches, backward)
                      : tasks_of_stage(schedule, process, stages, micro_batches, backward));
    left += own.back().size();
  }
  const auto p = static_cast<size_t>(stages), m = static_cast<size_t>(micro_batches);
  // When each pass ends; -1: not yet.
  std::vector<std::vector<int64_t>> forward_end(p, std::vector<int64_t>(m, -1)), backward_end = forward_end;
  std::vector<size_t> next(own.size(), 0);
  std::vector<int64_t> free_at(own.size(), 0);
  std::vector<std::pair<int64_t, PipelineTask>> begun;
  for (; left > 0; --left) {
    // The task that can begin first.
    const PipelineTask* first = nullptr;
    int64_t begin = 0;
    size_t process = 0;
    for (size_t each = 0; each < own.size(); ++each) {
      if (next[each] == own[each].size()) continue;
      const PipelineTask& task = own[each][next[each]];
      const auto i = static_cast<size_t>(task.micro_batch), s = static_cast<size_t>(task.stage);
      int64_t needed = 0;
      if (!task.backward) needed = s == 0 ? 0 : forward_end[s - 1][i];
      else needed = s + 1 == p ? forward_end[s][i] : backward_end[s + 1][i];
      if (needed < 0) continue;
      const int64_t at = std::max(needed, free_at[each]);
      if (!first || at < begin) first = &task, begin = at, process = each;
    }
    const int64_t end = begin + (first->backward ? kBackward : kForward);
    const auto s = static_cast<size_t>(first->stage);
    (first->backward ? backward_end : forward_end)[s][static_cast<size_t>(first->micro_batch)] = end;
    free_at[process] = end;
    ++next[process];
    begun.emplace_back(begin, *first);
  }
  std::stable_sort(begun.begin(), begun.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<PipelineTask> result;
  for (const auto& [begin, task] : begun) result.push_back(task);
  return result;
}

}  // namespace transom
