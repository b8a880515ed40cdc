// SPDX-License-Identifier: Apache-2.0
// A model whose parameters, gradients and optimizer states are spread over the processes of a mesh.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/optim/optimizer.h"
#include "models/sharding/layout.h"
#include "models/sharding/pipeline/run.h"
#include "models/sharding/sharded_tensors.h"
#include "transom/model.h"

namespace transom {

// The same calls in the same order on all processes. For one thread at a time. The model must outlive it.
class ModelSharding {
 public:
  // Takes the model's parameters: their values become held tensors (see ShardedTensors).
  ModelSharding(Model& model, const ShardingLayout& layout, int64_t rank, int64_t ranks);

  const ShardingLayout& layout() const { return layout_; }
  ShardedTensors& tensors() { return tensors_; }
  // Null where the layers are not spread over the stages of a pipeline.
  const PipelineStages* stages() const { return stages_.get(); }
  // Which stage has a parameter between updates, and updates it; without a pipeline this one. Whether it is of this
  // process.
  int64_t stage_of(const Parameter& parameter) const;
  bool is_home(const Parameter& parameter) const;
  bool is_home(const OptimizedParameter& parameter) const;
  // Those that this stage updates.
  std::vector<OptimizedParameter> at_home(std::vector<OptimizedParameter> trained) const;
  // How many processes have rows of their own.
  int64_t row_parts() const;

  // Where a parameter's values are between steps, and where its gradient and its state are.
  Placement home_of(const Parameter& parameter) const;
  Placement state_home_of(const Parameter& parameter) const;
  // Of the optimizer's state of that name.
  Placement state_placement(const std::string& name, const Type& type,
                            const std::vector<OptimizedParameter>& trained) const;

  // Parameters and states that came whole (from a checkpoint) become parts; what is held of others is let go.
  void take(Optimizer* optimizer, const std::vector<OptimizedParameter>& trained);
  // Zeros, for the first step.
  void initialise(Optimizer& optimizer, const std::vector<OptimizedParameter>& trained);

  // Weights that several stages use are sent once and for all: nobody updates them. Before the first evaluation.
  void fix_weights() { fixed_weights_ = true; }

  // From now until the next evaluation the rows of these tensors are cut.
  void cut_rows(const NamedTensors& inputs);
  // Evaluates what this process computes alone, with its collectives; the rows that were cut are forgotten.
  std::vector<Tensor> evaluate(ShardedRequest request, StepRunner& runner);
  // Of pipelines: the graph of this process for one micro-batch, and micro-batches carried out (see PipelineRunner).
  struct Pipelined {
    PipelinedBatch batch;
    std::vector<Placement> placements;  // of its outputs
  };
  Pipelined trace(ShardedRequest request);
  PipelineResult run(const std::vector<PipelinedBatch>& batches, bool backward);
  // Evaluates a pass forward. In a pipeline its stages come one after the other; what every process gets, all of them
  // get, and what is held as computed stays where it arises.
  std::vector<Tensor> answer(ShardedRequest request);
  // Evaluates these on every process.
  void compute(const std::vector<Tensor>& tensors);

  // Where a gradient goes that is summed over micro-batches.
  Placement accumulated_home_of(const Parameter& parameter) const;
  // Of a held value: its parameter's axes of storage.
  MeshAxes stored_axes() const;

 private:
  Placement base_of(const Parameter& parameter) const;
  const Parameter* find(const std::string& name) const;
  Tensor part_of(const Parameter& parameter);
  std::vector<PipelineWeight> pipeline_weights();

  Model& model_;
  ShardingLayout layout_;
  ShardedTensors tensors_;
  std::unique_ptr<PipelineStages> stages_;
  std::unique_ptr<PipelineRunner> pipeline_;
  bool fixed_weights_ = false;
  TensorMap<int64_t> stages_of_state_;  // of held tensors that a pass left: which stage has them
  std::vector<std::pair<Tensor, Placement>> cut_;
  StepRunner runner_;
};

// The stages of a model's weights, `chunks` for each process. Throws an Error of kind kUsage for models that no
// pipeline trains.
std::unique_ptr<PipelineStages> stages_of(const Model& model, int64_t processes, int64_t chunks);

// While it lives the model and the optimizer have whole values: on rank 0, or everywhere. All processes make one
// together.
class WholeValues {
 public:
  WholeValues(ModelSharding* sharding, Model& model, Optimizer* optimizer, bool everywhere);
  ~WholeValues();
  WholeValues(const WholeValues&) = delete;
  WholeValues& operator=(const WholeValues&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<Parameter>, Tensor>> parameters_;
  Optimizer* optimizer_ = nullptr;
  std::vector<std::pair<std::string, Tensor>> state_;
};

}  // namespace transom
