// SPDX-License-Identifier: Apache-2.0
// A model whose parameters, gradients and optimizer states are spread over the processes of a mesh.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "optim/optimizer.h"
#include "sharding/layout.h"
#include "sharding/sharded_tensors.h"
#include "transom/model.h"

namespace transom {

// The same calls in the same order on all processes. For one thread at a time. The model must outlive it.
class ModelSharding {
 public:
  // Takes the model's parameters: their values become held tensors (see ShardedTensors).
  ModelSharding(Model& model, const ShardingLayout& layout, int64_t rank, int64_t ranks);

  const ShardingLayout& layout() const { return layout_; }
  ShardedTensors& tensors() { return tensors_; }
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

  // From now until the next evaluation the rows of these tensors are cut.
  void cut_rows(const NamedTensors& inputs);
  // Evaluates; the rows that were cut are forgotten.
  std::vector<Tensor> evaluate(ShardedRequest request, StepRunner& runner);
  // Evaluates these on every process.
  void compute(const std::vector<Tensor>& tensors);

  // Where a gradient goes that is summed over micro-batches.
  Placement accumulated_home_of(const Parameter& parameter) const;
  // Of a held value: its parameter's axes of storage.
  MeshAxes stored_axes() const;

 private:
  Placement base_of(const Parameter& parameter) const;
  const Parameter* find(const std::string& name) const;

  Model& model_;
  ShardingLayout layout_;
  ShardedTensors tensors_;
  std::vector<std::pair<Tensor, Placement>> cut_;
  StepRunner runner_;
};

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
