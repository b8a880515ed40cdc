// SPDX-License-Identifier: Apache-2.0
// Carries out the micro-batches of an update, or of an evaluation, on the stages of a pipeline.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "models/sharding/pipeline/cut.h"
#include "models/sharding/pipeline/schedule.h"
#include "models/sharding/process_mesh.h"

namespace transom {

class Communicator;

// One micro-batch, as each process traced it over its own parts.
struct PipelinedBatch {
  std::vector<Tensor> outputs;
  std::vector<std::optional<int64_t>> homes;  // of gradients, by output: the stage that they are for
  uint64_t backward_from = UINT64_MAX;
  TensorMap<int64_t> kept;  // leaves that one stage alone has
};

struct PipelineResult {
  // Each output, summed over the micro-batches, on the process of the stage that it is for, or that makes it; elsewhere
  // no value.
  std::vector<Tensor> outputs;
  std::vector<std::optional<int64_t>> processes;  // of the pipeline, that have them; none: all do
};

// A weight of this process, and which stage has it between updates.
struct PipelineWeight {
  Tensor local;  // without a value where this process does not have it
  int64_t home = 0;
};

// All processes call it together with graphs of one structure. For one thread.
class PipelineRunner {
 public:
  // Joins the processes of the pipeline that this one is in. `keeps_weights`: what other stages use of a stage's
  // weights stays there for all runs, not for one alone.
  PipelineRunner(const ProcessMesh& mesh, PipelineSchedule schedule, bool keeps_weights = false);

  PipelineResult run(const std::vector<PipelinedBatch>& batches, const std::vector<PipelineWeight>& weights,
                     const PipelineStages& stages, bool backward);
  // The tensor of one process on all; the others give its type alone.
  Tensor shared(const Tensor& tensor, const Type& type, int64_t from);

 private:
  void send(const Tensor& tensor, int64_t to);
  Tensor receive(const Type& type, int64_t from);
  // Weights that a stage uses and another one has.
  void exchange_weights(const std::vector<std::vector<size_t>>& weights_of_stages,
                        const std::vector<PipelineWeight>& weights, const PipelineStages& stages,
                        std::vector<TensorMap<Tensor>>& known);
  void wait();
  void forget(const PipelineCut& cut, int64_t stage, const PipelineStages& stages, TensorMap<Tensor>& known) const;

  const ProcessMesh& mesh_;
  PipelineSchedule schedule_;
  int64_t process_;  // of the pipeline
  Communicator* pipeline_;
  bool waits_ = false;  // for what is to be received
  std::vector<Tensor> in_flight_;
  bool keeps_weights_;
  TensorMap<std::set<int64_t>> kept_by_;  // of a weight here: which processes keep it
  TensorMap<Tensor> kept_;                // of a weight elsewhere, by what stands for it here
};

}  // namespace transom
