// SPDX-License-Identifier: Apache-2.0
// How a run is spread over its processes.
#pragma once

#include "models/sharding/pipeline/schedule.h"
#include "models/sharding/process_mesh.h"
#include "models/sharding/rewrite/shard_graph.h"

namespace transom {

struct ShardingLayout {
  ProcessMesh::Sizes sizes = {1, 1, 1, 1, 1, 1};
  // What is cut along the axis fsdp (Rajbhandari et al., "ZeRO", 2020): 1 the optimizer's state, 2 gradients as well,
  // 3 parameters as well.
  int zero_stage = 0;
  // Stage 3: what the forward pass gathers is let go, and gathered again by the backward pass.
  bool reshard_after_forward = true;
  // Of pipelines: the order of micro-batches.
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  // Stages of each process, above 1 with kInterleaved alone.
  int64_t chunks = 1;
  // Of the axis cp.
  ContextStrategy context = ContextStrategy::kHeads;
  // One process writes all of a checkpoint, not each its parts.
  bool whole_checkpoints = false;
  // The optimizer's state lies in host memory between updates.
  bool offloads_state = false;
  // Beside the axis tp: norms, dropout and residuals work on stretches of sequences.
  bool sequence_parallel = false;

  int64_t size(MeshAxis axis) const { return sizes[static_cast<size_t>(axis)]; }
  void set(MeshAxis axis, int64_t size) { sizes[static_cast<size_t>(axis)] = size; }
  // Whether processes do anything but train the same model on rows of their own.
  bool shards() const {
    return zero_stage > 0 || size(MeshAxis::kTensor) > 1 || size(MeshAxis::kContext) > 1 ||
           size(MeshAxis::kExpert) > 1 || size(MeshAxis::kPipeline) > 1;
  }
};

}  // namespace transom
