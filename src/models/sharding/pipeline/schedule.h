// SPDX-License-Identifier: Apache-2.0
// The order in which the stages of a pipeline take the micro-batches of an update: GPipe (Huang et al., 2018), all
// forward passes and then all backward passes; 1F1B (Narayanan et al., "PipeDream-2BW", 2020), where a stage holds
// the activations of at most as many micro-batches as stages come after it; or 1F1B where each process has several
// stages, dealt in turn (Narayanan et al., "Megatron-LM", 2021): with v of them a process stands still for a v-th.
#pragma once

#include <cstdint>
#include <vector>

namespace transom {

enum class PipelineSchedule { kGPipe, k1F1B, kInterleaved };

// A pass of one micro-batch through one stage.
struct PipelineTask {
  int64_t stage = 0, micro_batch = 0;
  bool backward = false;
  bool operator==(const PipelineTask&) const = default;
};

// The tasks of all stages in an order in which they can be carried out one after the other: by when they begin if a
// backward pass takes twice the time of a forward pass. Each stage's own tasks stand in the order of the schedule.
// `backward`: whether there are backward passes. All processes make the same list, and exchange messages in its order,
// so that none waits for another that waits for it. `stages` counts those of all `processes` processes, which is the
// same number unless the schedule is kInterleaved.
std::vector<PipelineTask> pipeline_tasks(PipelineSchedule schedule, int64_t stages, int64_t processes,
                                         int64_t micro_batches, bool backward = true);

}  // namespace transom
